"""A hundred times as many clients, equally many active: does a round cost the same?

    make bench-scale

Each measurement is a separate process. In every repeat the small and the large crowd run one after
the other, in changing order, and ratios are taken within a repeat, so that a slow minute of the
machine affects both. A run's time is that of its median round, without the first one. Memory is the
sum of the peaks of the coordinator and its workers.

Then it measures the time to allocate a million active clients to ten tasks.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.harness import arguments, machine, module, run_json, save, spread
from benchmarks.scale.crowd_rounds import KINDS

Found = dict[str, Any]
MEASURES: dict[str, Callable[[Found], float]] = {
    "seconds": lambda run: statistics.median(run["rounds"]),
    "processor seconds of the coordinator": lambda run: statistics.median(
        run["processor seconds of the coordinator"]
    ),
    "MiB of the coordinator": lambda run: run["MiB of the coordinator"],
    "MiB in all": lambda run: run["MiB of the coordinator"] + run["MiB of the workers"],
}


def crowds(few: int, many: int, repeats: int, rounds: int, active: int) -> Found:
    """By kind of engine: the measurements of each crowd, and the ratios of large to small."""
    runs: dict[tuple[str, int], list[Found]] = {(k, n): [] for k in KINDS for n in (few, many)}
    options = ("--rounds", str(rounds), "--active", str(active))
    for repeat in range(repeats):
        for kind in KINDS:
            for clients in (few, many) if repeat % 2 else (many, few):
                found = run_json(
                    module("benchmarks.scale.crowd_rounds", kind, str(clients), *options)
                )
                runs[kind, clients].append(found)
                print(
                    f"{repeat + 1}: {kind}, {clients:,} clients: "
                    f"{MEASURES['seconds'](found):.3f} s a round, "
                    f"{MEASURES['MiB in all'](found):.0f} MiB",
                    flush=True,
                )
    table: Found = {}
    for kind in KINDS:
        table[kind] = {}
        for name, measure in MEASURES.items():
            small, large = ([measure(run) for run in runs[kind, n]] for n in (few, many))
            ratio = spread([b / a for a, b in zip(small, large, strict=True)])
            table[kind][name] = {
                f"{few} clients": spread(small),
                f"{many} clients": spread(large),
                "ratio": ratio,
            }
        table[kind]["clients that had a turn"] = [
            runs[kind, n][0]["clients that had a turn"] for n in (few, many)
        ]
    return table


def allocation(clients: int, tasks: int, repeats: int) -> Found:
    """Seconds by rule."""
    options = ("--clients", str(clients), "--tasks", str(tasks), "--repeats", "3")
    seconds: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, found in run_json(module("benchmarks.scale.allocation", *options)).items():
            seconds.setdefault(name, []).extend(found)
    return {name: spread(found) for name, found in seconds.items()}


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--active", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=10, help="in an allocation")
    given = parser.parse_args()
    table = crowds(given.few, given.many, given.repeats, given.rounds, given.active)
    for kind, measures in table.items():
        for name in MEASURES:
            small, large, ratio = measures[name].values()
            print(
                f"{kind:6}  {name:36}  {small['median']:8.3f}  {large['median']:8.3f}  "
                f"x {ratio['median']:.3f} ({ratio['lowest']:.3f} to {ratio['highest']:.3f})"
            )
    seconds = allocation(given.many, given.tasks, given.repeats)
    for name, found in seconds.items():
        low, high = 1000 * found["lowest"], 1000 * found["highest"]
        print(f"{name:28}  {1000 * found['median']:6.1f} ms ({low:.1f} to {high:.1f})")
    told = {
        "rounds": given.rounds,
        "active": given.active,
        "repeats": given.repeats,
        "crowds": table,
        f"seconds to allocate {given.many} clients, {given.tasks} tasks": seconds,
    }
    save(machine("make bench-scale", "mmfl", "torch", "numpy") | told, given.out)


if __name__ == "__main__":
    main()
