"""Some rounds with a crowd of clients, a thousand of them active per round: time and memory.

    python -m benchmarks.scale.crowd_rounds local 1000000

With "mock", clients train in no time, so only the coordinator's own work is left. With "judged", a
hundred clients of each task are also asked for its score.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import mmfl
from mmfl import Experiment
from mmfl.engines import MockEngine
from mmfl.exchange import ClientUpdate, Evaluation, Job, Layout, Params
from mmfl.experiment import DataCache, Engine, simulate

TASKS = ("one", "other", "third")
KINDS = ("mock", "judged", "local")
DELTA = {"w": np.ones(16, np.float32)}


def experiment(kind: str, clients: int, active: int, rounds: int) -> Experiment:
    """Small models on small synthetic data, so that a turn is short."""
    task = {
        "dataset": {"kind": "synthetic", "classes": 4, "shape": [16], "train": 2000, "test": 200},
        "model": {"kind": "mlp", "hidden": [16]},
        "partition": {"kind": "iid", "points": [5, 15], "overlap": True},
    }
    asked = {"score_source": "clients", "score_clients": 100} if kind == "judged" else {}
    return Experiment.from_dict(
        {
            "rounds": rounds,
            "clients": {"count": clients, "active": active / clients},
            "local": {"steps": 1, "batch_size": 5},
            "evaluate": {"every": rounds},
            "engine": {"kind": "local", "workers": 2},
            "tasks": [{"name": name} | task for name in TASKS],
        }
        | asked
    ).resolved()


def turn(job: Job, params: Params) -> ClientUpdate:
    return ClientUpdate(job.address, DELTA, 5, 5, 1.0, 0.5, 0.0)


def judged(task: str, params: Params, client: int | None) -> Evaluation:
    return Evaluation(task, examples=5, loss=1.0, metric=2.0, client=client)


def engine_of(kind: str, todo: Experiment) -> Engine:
    if kind == "local":
        return todo.engine.open(todo, data_dir=None)
    federation = simulate(todo, DataCache(None).arrays(todo))
    first = {name: Params(Layout((("w", (16,)),)), np.zeros(16, np.float32)) for name in TASKS}
    return MockEngine(todo, federation, first, turn, judged)


def peak(process: str) -> float:
    """The peak memory of a process so far, in MiB."""
    return _status(process, "VmHWM") / 1024


def workers() -> list[str]:
    """The processes that this one has started."""
    mine, found = _status("self", "Pid"), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found += [path.name] if _status(path.name, "PPid") == mine else []
        except OSError:  # it has ended in the meantime
            continue
    return found


def _status(process: str, what: str) -> int:
    lines = (Path("/proc") / process / "status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(what + ":")))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("clients", type=int)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    start = time.perf_counter()
    todo = experiment(given.kind, given.clients, given.active, given.rounds)
    wall, own = [], []
    found: dict[str, Any] = {"kind": given.kind, "clients": given.clients}
    with closing(engine_of(given.kind, todo)) as engine:
        found["seconds_setup"] = time.perf_counter() - start
        for state, record in mmfl.rounds(todo, engine=engine):
            assert sum(record.clients.values()) == given.active, "some client's turn was lost"
            wall.append(record.seconds)
            own.append(time.process_time())
            if record.round == given.rounds:
                found["MiB of the coordinator"] = peak("self")
                found["MiB of the workers"] = sum(map(peak, workers()))
                found["clients that had a turn"] = len(state.clients.ids)
    found["rounds"] = wall[1:]
    found["processor seconds of the coordinator"] = np.diff(own).tolist()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
