"""What a checkpoint costs, compared with a bare write and with training.

    make bench-checkpoints

The baseline is the cheapest durable write: one file of the same length, written and fsynced. The
two alternate in one folder, and medians are compared. Then a real experiment runs with the default
settings (`[checkpoints]` not set) and reports the time spent on checkpoints.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import mmfl
from benchmarks.harness import HOUSE, arguments, machine, save
from mmfl.exchange import Layout, Params
from mmfl.loop import State
from mmfl.runs.checkpoints import CheckpointStore

EXPERIMENT = "experiments/first_run/first_run.toml"
SIZES = {"three small models": [50_000] * 3, "five CNNs": [800_000] * 5, "ResNet-18": [11_000_000]}
CLIENTS = 100_000


def bare(path: Path, content: bytes) -> None:
    """Write one file durably."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def states(sizes: list[int], count: int) -> list[State]:
    """`count` states with models of these sizes, each with new weights and some turns."""
    rng = np.random.default_rng(0)
    layouts = {f"task-{n}": Layout((("w", (size,)),)) for n, size in enumerate(sizes)}
    zero = {
        task: Params(layout, np.zeros(layout.size, np.float32)) for task, layout in layouts.items()
    }
    state = State.first(zero, "0" * 64)
    turns = [(client, "task-0", 0.5, 1.0) for client in range(CLIENTS)]
    state = state.replace(clients=state.clients.after(turns))
    found = []
    for t in range(1, count + 1):
        params = {
            task: Params(layout, rng.random(layout.size, np.float32))
            for task, layout in layouts.items()
        }
        state = state.replace(round=t, params=params)
        found.append(state)
    return found


def compare_writes(sizes: list[int], repeats: int, where: Path) -> dict[str, Any]:
    """Compare checkpoints and bare writes, one after the other."""
    vault, ours, theirs, written = CheckpointStore(where / "checkpoints", keep=3), [], [], 0
    for state in states(sizes, repeats + 1):
        start = time.perf_counter()
        name = vault.save(state)
        ours.append(time.perf_counter() - start)
        entries = json.loads((vault.folder / name).read_bytes())["files"]
        written = sum(e["bytes"] for part, e in entries.items() if part.startswith("model-"))
        content = np.random.default_rng(state.round).bytes(written)
        start = time.perf_counter()
        bare(where / "bare", content)
        theirs.append(time.perf_counter() - start)
    ours, theirs = ours[1:], theirs[1:]  # the first also writes the client history
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "bytes": written,
        "seconds": round(statistics.median(ours), 4),
        "seconds of a bare write": round(statistics.median(theirs), 4),
        "ratio": round(statistics.median(ratios), 2),
        "lowest and highest ratio": [round(min(ratios), 2), round(max(ratios), 2)],
        "share of ten seconds": round(statistics.median(ours) / 10, 4),
    }


def real(where: Path, rounds: int) -> dict[str, Any]:
    """The share of a real experiment's time that its checkpoints took."""
    sets = [f"rounds={rounds}"]
    experiment = mmfl.Experiment.load(HOUSE / EXPERIMENT, sets=sets)
    run = mmfl.run(experiment, where / "run")
    return {
        "experiment": f"{EXPERIMENT}, {rounds} rounds",
        "seconds of the rounds": round(run.seconds, 1),
        "seconds of the checkpoints": round(run.seconds_checkpoints, 3),
        "share": round(run.seconds_checkpoints / run.seconds, 5),
    }


def main() -> None:
    parser = arguments(__doc__, repeats=15)
    parser.add_argument("--rounds", type=int, default=400)
    given = parser.parse_args()
    found = {}
    for name, sizes in SIZES.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            found[name] = compare_writes(sizes, given.repeats, Path(folder))
        print(name, found[name], flush=True)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        run = real(Path(folder), given.rounds)
    print(run)
    options = f"--repeats {given.repeats} --rounds {given.rounds}"
    command = f"python -m benchmarks.checkpoints.run {options}"
    save({**machine(command, "mmfl", "numpy", "torch"), "saved": found, "run": run}, given.out)


if __name__ == "__main__":
    main()
