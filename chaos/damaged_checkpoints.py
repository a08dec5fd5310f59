"""Damage checkpoints: is all damage detected, and does the run end as it should?

    python -m chaos.damaged_checkpoints --count 1000 --out chaos/results/damaged_checkpoints.json

A real run is interrupted. Its checkpoints are copied `count` times, and in each copy one file that
the newest checkpoint needs (itself included) is damaged. The newest must then be reported as
damaged, by name. Some copies are resumed: they must end with the fingerprint of the uninterrupted
run.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import mmfl
from benchmarks.harness import HOUSE, arguments, machine, save
from mmfl.runs import stored_rounds
from mmfl.runs.checkpoints import CheckpointStore

__all__ = ["WAYS", "damage_file"]

WAYS = ("flip", "cut", "remove", "empty", "grow", "swap", "zero", "swap names")
RESUMED = 50
"""One copy in this many is resumed until it finishes."""


def damage_file(paths: list[Path], how: str, where: int, bit: int) -> Path:
    """Damage one of these files in one of the `WAYS`; returns which file and how."""
    path = paths[where % len(paths)]
    other = paths[(where + 1 + bit) % len(paths)]
    body = bytearray(path.read_bytes())
    at = where // len(paths) % max(1, len(body))
    match how:
        case "flip":
            body[at] ^= 1 << bit
        case "cut":
            del body[at:]
        case "empty":
            body.clear()
        case "grow":
            body += bytes(1 + bit)
        case "zero":  # a sector that was lost
            body[at : at + 512] = b"\0" * len(body[at : at + 512])
        case "swap":
            body[:] = other.read_bytes()
        case "swap names":
            mine = path.read_bytes()
            path.write_bytes(other.read_bytes())
            other.write_bytes(mine)
            return path
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(body)
    return path


def find_needed(folder: Path, name: str) -> list[Path]:
    """A checkpoint and its files."""
    entries = json.loads((folder / name).read_bytes())["files"].values()
    return [folder / name, *(folder / entry["file"] for entry in entries)]


def run(count: int, seed: int, where: Path) -> dict[str, Any]:
    """Damage each copy, check what is reported, and resume some copies."""
    sets = ["engine.kind=inline", "rounds=9"]
    experiment = mmfl.Experiment.load(HOUSE / "chaos" / "killed.toml", sets=sets)
    straight = mmfl.run(experiment, where / "straight").fingerprint
    with stored_rounds(experiment, where / "run") as rounds:
        for _, record in rounds:
            if record.round == 7:
                break
    generator = random.Random(seed)
    detected, named, ways, resumed = 0, 0, Counter[str](), []
    for number in range(count):
        copy = where / "copy"
        shutil.copytree(where / "run", copy)
        checkpoints = CheckpointStore(copy / "checkpoints", keep=2)
        newest = checkpoints.names()[-1]
        paths = find_needed(checkpoints.folder, newest)
        before = [path.read_bytes() for path in paths]
        while [p.read_bytes() if p.exists() else None for p in paths] == before:
            how = generator.choice(WAYS)
            damage_file(paths, how, generator.randrange(2**40), generator.randrange(8))
        ways[how] += 1
        found = checkpoints.newest(noted=newest)
        detected += found.name != newest
        named += newest in found.damaged
        if number % RESUMED == 0:
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("always")
                again = mmfl.run(experiment, copy, resume=True)
            resumed.append(again.fingerprint == straight)
        shutil.rmtree(copy)
    return {
        "damaged": count,
        "detected": detected,
        "named": named,
        "ways": dict(sorted(ways.items())),
        "resumed": len(resumed),
        "resumed to the straight run's fingerprint": sum(resumed),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    command = f"python -m chaos.damaged_checkpoints --count {given.count} --seed {given.seed}"
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.count, given.seed, Path(folder))
    result = {**machine(command, "mmfl", "numpy", "torch"), "seed": given.seed, **found}
    print(json.dumps(result, indent=1))
    save(result, given.out)
    fine = given.count == found["detected"] == found["named"]
    whole = found["resumed"] == found["resumed to the straight run's fingerprint"]
    sys.exit(0 if fine and whole else 1)


if __name__ == "__main__":
    main()
