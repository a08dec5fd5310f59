"""Every call to the operating system fails once: see `run.py`."""
