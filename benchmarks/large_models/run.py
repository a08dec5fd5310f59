"""Rounds of a large model: seconds, processor time and disk usage.

    python -m benchmarks.large_models.run --hidden 4200 --clients 24 --workers 2

The coordinator's processor time is the cost of checking, summing and publishing. "slots" is the
space of the workers' results, "written" what all processes wrote to disks.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing
from pathlib import Path

import mmfl
from benchmarks.harness import arguments, machine, save
from mmfl import Experiment
from mmfl.engines import WorkersEngine
from mmfl.engines.shared_memory.mapped import MappedFiles


def experiment(given: argparse.Namespace) -> Experiment:
    """A dense network with two hidden layers on synthetic images; a few steps per turn."""
    return Experiment.from_dict(
        {
            "rounds": given.rounds,
            "seed": 1,
            "score_split": "test",
            "clients": {"count": given.clients},
            "local": {"steps": given.steps, "batch_size": 16, "lr": 0.01},
            "engine": {"kind": "local", "workers": given.workers},
            "tasks": [
                {
                    "name": "large",
                    "dataset": {
                        "kind": "synthetic",
                        "classes": 10,
                        "shape": [28, 28],
                        "train": 4000,
                        "test": 100,
                    },
                    "model": {"kind": "mlp", "hidden": [given.hidden, given.hidden]},
                }
            ],
        }
    )


def processor_time(pid: str) -> float:
    """Processor seconds of a process, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_reserved(fd: int) -> float:
    """Megabytes that a file occupies."""
    return os.fstat(fd).st_blocks * 512 / 1e6


def measure_written(pid: str) -> float:
    """Megabytes that a process has written to disks."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["write_bytes"]) / 1e6


def main() -> None:
    parser = arguments(__doc__)
    for name, default in (
        ("--hidden", 4200),
        ("--clients", 24),
        ("--workers", 2),
        ("--steps", 3),
        ("--rounds", 4),
    ):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    todo = experiment(given)
    own = os.getpid()
    with closing(todo.engine.open(todo, data_dir=None)) as engine:
        assert isinstance(engine, WorkersEngine)
        assert isinstance(engine.transport, MappedFiles)
        slots = engine.transport.slots
        first = engine.initial()
        workers = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        processes = [str(own), *workers]
        rounds, fingerprint = [], ""
        before = [processor_time(pid) for pid in processes]
        for state, record in mmfl.rounds(todo, engine=engine):
            now, fingerprint = [processor_time(pid) for pid in processes], state.fingerprint
            rounds.append(
                {
                    "seconds": record.seconds_train,
                    "aggregate": record.seconds_aggregate,
                    "coordinator_cpu": now[0] - before[0],
                    "workers_cpu": sum(now[1:]) - sum(before[1:]),
                    "slots_mb": sum(measure_reserved(fd) for fd in slots.files),
                    "slots_on_disk_mb": measure_reserved(slots.files[0]),
                    "written_mb": sum(map(measure_written, processes)),
                }
            )
            before = now
    weights = first["large"].layout.size
    found = {"weights": weights, "fingerprint": fingerprint, "rounds": rounds}
    print(json.dumps(found, indent=1))
    save(machine("make bench-large_models", "mmfl", "torch", "numpy") | found, given.out)


if __name__ == "__main__":
    main()
