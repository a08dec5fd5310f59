"""A million clients, ten tasks: each auction next to NumPy's argsort of the same table.

    make bench-auctions

Bids whose relative difference is below about 2e-10 are ranked by a slower, stable argsort. They are
not measured here.

In every repeat the argsort and each auction take a turn, so that a noisy moment of the machine
affects all of them. The report has medians, the spread, the median of the ratios within a repeat,
and the peak of memory above the table itself (in a separate process).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, machine, run_json, save
from mmfl.market import budget_fair, gmm_fair, max_min_fair, read_bids

BUDGETS = {"few win (1%)": 0.01, "a third wins": 0.33, "everybody wins": 3.0}
AUCTIONS: dict[str, Callable[[Any, float], object]] = {
    "budget_fair": budget_fair,
    "gmm_fair": gmm_fair,
    "max_min_fair": max_min_fair,
}


def table(n: int, tasks: int, ties: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Uniform bids; with ties, in whole cents."""
    bids = np.random.default_rng(0).random((n, tasks))
    return np.round(bids, 2) if ties else bids


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def measure(n: int, tasks: int, repeats: int, ties: bool) -> list[dict[str, Any]]:
    """One row per auction and budget."""
    bids = table(n, tasks, ties)
    contenders: dict[str, Callable[[], object]] = {"argsort": lambda: np.argsort(bids, axis=0)}
    for level, share in BUDGETS.items():
        budget = share * n * tasks
        for name, auction in AUCTIONS.items():
            contenders[f"{name}, {level}"] = partial(auction, bids, budget)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, act in contenders.items():
            spent = seconds(act)
            if repeat:  # the first call warms up
                times[name].append(spent)
    base = times["argsort"]
    return [
        {
            "what": name,
            "ties": ties,
            "seconds": statistics.median(found),
            "lowest": min(found),
            "highest": max(found),
            "ratio to argsort": statistics.median(a / b for a, b in zip(found, base, strict=True)),
        }
        for name, found in times.items()
    ]


MEMORY = """
import json
from pathlib import Path
from benchmarks.auctions.run import AUCTIONS, table
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
bids = table({n}, {tasks}, False)
before = peak()
outcome = AUCTIONS[{name!r}](bids, {budget})
print(json.dumps({{"KiB": peak() - before}}))
"""


def memory(n: int, tasks: int) -> dict[str, float]:
    """Peak memory of an auction beyond its input, as a multiple of the input."""
    found = {}
    for name in AUCTIONS:
        budget = 0.33 * n * tasks
        code = MEMORY.format(n=n, tasks=tasks, name=name, budget=budget)
        answer = run_json([sys.executable, "-c", code])
        found[name] = answer["KiB"] * 1024 / (n * tasks * 8)
    return found


def csv_seconds(n: int, tasks: int) -> dict[str, float]:
    """Time to read a CSV file of this many clients, and to read its bytes."""
    bids = np.round(table(n, tasks, False), 6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bids.csv"
        head = "client," + ",".join(f"task{s}" for s in range(tasks))
        rows = (f"{i}," + ",".join(map(repr, row)) for i, row in enumerate(bids.tolist()))
        path.write_text("\n".join([head, *rows]) + "\n")
        megabytes = path.stat().st_size / 1e6
        spent = seconds(lambda: read_bids(path))
        assert np.array_equal(read_bids(path).values, bids)
    return {"clients": n, "tasks": tasks, "megabytes": megabytes, "seconds": spent}


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=10)
    given = parser.parse_args()
    rows = [
        row
        for ties in (False, True)
        for row in measure(given.clients, given.tasks, given.repeats, ties)
    ]
    width = max(len(row["what"]) for row in rows)
    for row in rows:
        span = f"{row['lowest']:.2f} to {row['highest']:.2f}"
        kind = "bids in cents" if row["ties"] else "all bids differ"
        print(
            f"{row['what']:{width}}  {kind:15}  {row['seconds']:.2f} s ({span})  "
            f"{row['ratio to argsort']:.2f} x argsort"
        )
    peak = memory(given.clients, given.tasks)
    for name, multiple in peak.items():
        print(f"{name}: {multiple:.1f} x the input beyond it, at its peak")
    read = csv_seconds(given.clients, given.tasks)
    print(f"CSV of {read['megabytes']:.0f} MB read in {read['seconds']:.1f} s")
    told = {
        "clients": given.clients,
        "tasks": given.tasks,
        "repeats": given.repeats,
        "auctions": rows,
        "memory beyond the input, as a multiple of it": peak,
        "csv": read,
    }
    save(machine("make bench-auctions", "mmfl", "numpy") | told, given.out)


if __name__ == "__main__":
    main()
