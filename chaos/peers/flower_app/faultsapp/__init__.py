"""FedAvg on three numbers, in processes that can be killed: see `../flower_deployed.py`."""
