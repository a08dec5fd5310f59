"""The real round loop on a workload; rounds are stored.

    python -m benchmarks.speed.ours A --workers 2 --rounds 4 --precision float32

Each client's update is formed, checked and aggregated. A lost update ends the measurement.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.workloads import WORKLOADS, Workload
from mmfl import Experiment
from mmfl.runs import timed_rounds

MODELS: dict[str, dict[str, Any]] = {
    "cnn": {"kind": "cnn", "channels": [32, 64], "kernel": 5, "dense": 512},
    "mlp": {"kind": "mlp", "hidden": [64]},
    "resnet": {"kind": "preact_resnet", "width": 16, "blocks": [1, 1, 1]},
}


def experiment(workload: Workload, data: Path, given: argparse.Namespace) -> Experiment:
    """The workload as an experiment; the test split is evaluated once, at the end."""
    return Experiment.from_dict(
        {
            "rounds": given.rounds,
            "precision": given.precision,
            "kernel": given.kernel,
            "score_split": "test",
            "clients": {"count": workload.clients},
            "local": {
                "epochs": workload.epochs,
                "batch_size": workload.batch_size,
                "lr": workload.lr,
                "momentum": 0.0,
                "weight_decay": 0.0,
            },
            "allocator": {"kind": "uniform"},
            "engine": {"kind": given.engine, "workers": given.workers},
            "tasks": [
                {
                    "name": "it",
                    "dataset": {"kind": "npz", "path": str(data)},
                    "model": MODELS[workload.model],
                    "partition": {"kind": "iid", "points": workload.examples},
                }
            ],
        }
    )


def save(workload: Workload, folder: Path) -> Path:
    """The workload's examples as an npz file; 100 of them are the test split."""
    images, labels = workload.data()
    x = images.transpose(0, 2, 3, 1)
    path = folder / f"{workload.name}.npz"
    np.savez(path, x_train=x, y_train=labels, x_test=x[:100], y_test=labels[:100])
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--kernel", default="auto")
    given = parser.parse_args()
    workload = WORKLOADS[given.workload]
    with tempfile.TemporaryDirectory() as folder:
        todo = experiment(workload, save(workload, Path(folder)), given)
        timed = list(timed_rounds(todo))
    assert all(r.samples == workload.samples for r, _ in timed), "some client's turn was lost"
    peak = [
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    print(
        json.dumps(
            {
                "framework": "mmfl",
                "workload": workload.name,
                "rounds": [record.seconds_train for record, _ in timed[1:]],
                "shares": [dataclasses.asdict(shares) for _, shares in timed[1:]],
                "samples": workload.samples,
                "clients": workload.clients,
                "peak_rss_mb": (peak[0] + given.workers * peak[1]) / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
