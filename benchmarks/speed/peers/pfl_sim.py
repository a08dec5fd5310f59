"""A workload on Apple's pfl: its simulated backend, federated averaging, one process per core.

python benchmarks/speed/peers/pfl_sim.py A --rounds 4
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from measuring import Clock, arguments, examples, norm, peak_rss_mb, report, started
from torch import Tensor, nn
from workloads import WORKLOADS, Workload


def join(processes: int) -> list[subprocess.Popen[bytes]]:
    """Become the first of several pfl processes, and start the others with the same arguments.

    pfl reads PFL_WORKER_RANK and PFL_WORKER_ADDRESSES when it is imported, so this comes first.
    """
    if processes == 1 or "PFL_WORKER_RANK" in os.environ:
        return []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Only the first address is ever connected to; the others are counted.
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join([f"127.0.0.1:{port}"] * processes)
    os.environ["PFL_WORKER_RANK"] = "0"
    return [
        subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"PFL_WORKER_RANK": str(k)})
        for k in range(1, processes)
    ]


def simulate(workload: Workload, rounds: int, precision: str, clock: Clock) -> dict[str, Any]:
    """Train, and return the peak memory and how far the model moved."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Shuffled(PyTorchTensorDataset):
        """pfl's batches are the same in every epoch; these are shuffled in each."""

        def iter(self, batch_size: int | None) -> Iterator[list[Tensor]]:
            x, y = self.raw_data
            for batch in torch.randperm(len(x)).split(batch_size or len(x)):
                yield [x[batch], y[batch]]

    class Network(nn.Module):
        """The workload's model, with the two methods that pfl asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.body = workload.build()

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self.body(x), y)

        def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
            # pfl evaluates every client twice in the first round, whatever the settings. Nobody
            # reads the result, so evaluation costs nothing here.
            return {"examples": Weighted(len(x), 1)}

    class RoundEnded(TrainingProcessCallback[PyTorchModel]):
        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            clock.round_ended()
            return False, Metrics()

    np.random.seed(0)  # noqa: NPY002 (pfl's processes agree on who trains by NumPy's global state)
    torch.manual_seed(0)
    network = Network()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    images, labels = examples(workload.name)
    clients = [
        Shuffled((x, y))
        for x, y in zip(
            images.split(workload.examples), labels.split(workload.examples), strict=True
        )
    ]
    data = FederatedDataset(
        clients.__getitem__, get_user_sampler("minimize_reuse", range(len(clients)))
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,
            train_cohort_size=workload.clients,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(
            network,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
            amp_dtype=torch.bfloat16 if precision == "bf16" else None,
        ),
        NNTrainHyperParams(
            local_num_epochs=workload.epochs,
            local_learning_rate=workload.lr,
            local_batch_size=workload.batch_size,
        ),
        callbacks=[RoundEnded()],
        send_metrics_to_platform=False,
    )
    return {"memory": peak_rss_mb(), "moved": norm(before, network.state_dict())}


def main() -> None:
    parser = arguments("Run a workload on pfl's simulated backend.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of a process")
    options = parser.parse_args()
    began = options.started if options.started is not None else started()
    workload = WORKLOADS[options.workload]

    others = join(options.processes)
    torch.set_num_threads(options.threads)
    clock = Clock()
    rounds = 1 if options.first_round_only else options.rounds + 1
    outcome = simulate(workload, rounds, options.precision, clock)
    if options.processes > 1:
        # The others stay until the first has read how much memory they used.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    if os.environ.get("PFL_WORKER_RANK", "0") != "0":
        return
    for other in others:
        if other.wait() != 0:
            raise RuntimeError(f"a process of pfl ended with {other.returncode}")
    settings = {
        "processes": options.processes,
        "threads": options.threads,
        "precision": options.precision,
    }
    report("pfl", workload, began, clock, settings, **outcome)


if __name__ == "__main__":
    main()
