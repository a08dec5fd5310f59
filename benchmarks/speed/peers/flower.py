"""A workload on Flower's simulation engine, with its own FedAvg and one Ray actor per core.

python benchmarks/speed/peers/flower.py A --rounds 4
"""

from __future__ import annotations

import os
from typing import Any

from measuring import Clock, arguments, norm, peak_rss_mb, report, started
from workloads import WORKLOADS

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": os.environ.get("NICENESS", "0"),
}


def main() -> None:
    parser = arguments("Run a workload on Flower's simulation engine.")
    parser.add_argument("--num-cpus", type=float, default=1, help="of an actor")
    parser.add_argument("--threads", type=int, default=1, help="of an actor")
    parser.add_argument("--pull-interval", type=float, default=0.1)
    options = parser.parse_args()
    began = options.started if options.started is not None else started()
    workload = WORKLOADS[options.workload]

    import torch
    from flower_client import app as client_app
    from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    clock = Clock()
    outcome: dict[str, Any] = {}
    server_app = ServerApp()

    def round_ended(server_round: int, arrays: ArrayRecord) -> None:
        """Flower calls this before the first round and after each."""
        if server_round > 0:
            clock.round_ended()

    def replies(records: list[RecordDict], key: str) -> MetricRecord:
        return MetricRecord({"clients": len(records)})

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        grid.pull_interval = options.pull_interval
        torch.manual_seed(0)
        before = workload.build().state_dict()
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=workload.clients,  # or it may begin before all are ready
            train_metrics_aggr_fn=replies,
        )
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(before),
            num_rounds=1 if options.first_round_only else options.rounds + 1,
            train_config=ConfigRecord(
                {
                    "workload": workload.name,
                    "threads": options.threads,
                    "precision": options.precision,
                }
            ),
            evaluate_fn=round_ended,
        )
        outcome["memory"] = peak_rss_mb()
        outcome["moved"] = norm(before, result.arrays.to_torch_state_dict())
        for metrics in result.train_metrics_clientapp.values():
            if metrics["clients"] != workload.clients:
                raise RuntimeError(f"{metrics['clients']} of {workload.clients} clients replied")

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=workload.clients,
        backend_config={"client_resources": {"num_cpus": options.num_cpus, "num_gpus": 0.0}},
    )
    settings = {
        "num_cpus": options.num_cpus,
        "threads": options.threads,
        "precision": options.precision,
        "pull_interval": options.pull_interval,
    }
    report("flwr", workload, began, clock, settings, **outcome)


if __name__ == "__main__":
    main()
