"""Another commit of mmfl and this one on the same work: did anything get slower?

    git worktree add ../before COMMIT
    make bench-commits ARGS="--before ../before"

Each repeat runs both on each workload, one after the other; ratios are taken within a repeat.
"train" is training and aggregation, "round" is the whole round with evaluation and storage.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.harness import HOUSE, arguments, machine, module, run_json, save, spread

ROUNDS = {"A": 4, "B": 100, "R": 4}


def run_once(tree: Path, workload: str) -> dict[str, float]:
    """Seconds of a median round of a workload, with the sources of a tree."""
    command = module("benchmarks.speed.ours", workload, "--rounds", str(ROUNDS[workload]))
    found = run_json(command, os.environ | {"PYTHONPATH": str(tree / "src")})
    whole = [sum(shares.values()) for shares in found["shares"]]
    return {"train": statistics.median(found["rounds"]), "round": statistics.median(whole)}


def head(tree: Path) -> str:
    """The commit that a tree has checked out."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    parser.add_argument("--before", type=Path, required=True, help="a tree of the other commit")
    parser.add_argument("--only", default="AB", help="letters of workloads")
    given = parser.parse_args()
    trees = {"before": given.before.resolve(), "after": HOUSE}
    table: dict[str, Any] = {}
    for workload in given.only:
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for repeat in range(given.repeats):
            for name in list(trees)[:: 1 if repeat % 2 else -1]:
                rows[name].append(run_once(trees[name], workload))
            last = {name: found[-1] for name, found in rows.items()}
            print(workload, repeat + 1, json.dumps(last), flush=True)
        pairs = list(zip(rows["before"], rows["after"], strict=True))
        table[workload] = {
            f"{part}, before / after": spread([one[part] / other[part] for one, other in pairs])
            for part in ("train", "round")
        }
    options = f"--only {given.only} --repeats {given.repeats}"
    command = f"python -m benchmarks.commits.run --before BEFORE {options}"
    commits = {name: head(tree) for name, tree in trees.items()}
    result = {**machine(command, "torch", "numpy"), "commits": commits, "workloads": table}
    print(json.dumps(result, indent=2))
    save(result, given.out)


if __name__ == "__main__":
    main()
