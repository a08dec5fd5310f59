"""Allocate a million active clients to ten tasks: seconds of each rule.

    python -m benchmarks.scale.allocation --clients 1000000

"all": every client may train every task. "any": a coin toss decides for each client and task, so
that nearly all 1,024 sets of tasks occur.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from mmfl.allocate import (
    Allocator,
    Assignments,
    FedFair,
    RoundRobin,
    Sequential,
    Uniform,
    View,
    assign,
    first_fault,
)
from mmfl.loop import extend_chain
from mmfl.rng import stream

RULES: dict[str, Allocator] = {
    "fed_fair": FedFair(),
    "fed_fair, stratified": FedFair(sampling="stratified"),
    "fed_fair, credit": FedFair(sampling="credit"),
    "fed_fair, floor = 1": FedFair(floor=1),
    "uniform": Uniform(),
    "uniform, stratified": Uniform(sampling="stratified"),
    "round_robin": RoundRobin(),
    "sequential": Sequential(),
}


def view_of(eligible: npt.NDArray[np.bool_]) -> View:
    """A round in which all these clients are active."""
    n, S = eligible.shape
    return View(
        round=7,
        rounds=20,
        tasks=tuple(f"task{s}" for s in range(S)),
        difficulty=np.linspace(0.1, 0.9, S),
        clients=np.arange(n),
        positions=np.arange(n),
        population=n,
        sizes=eligible.astype(np.int64),
        eligible=eligible,
        capacity=np.ones(n, np.int64),
    )


def contenders(n: int, S: int) -> Iterator[tuple[str, Callable[[], object]]]:
    tables = {
        "all": np.ones((n, S), dtype=bool),
        "any": np.random.default_rng(0).random((n, S)) < 0.5,
    }
    for who, eligible in tables.items():
        view = view_of(eligible)

        def allocate(rule: Allocator, view: View = view) -> Assignments:
            return rule.allocate(view, None, rng=stream(0, "allocate", 7))[0]

        for name, rule in RULES.items():
            yield f"{name} ({who})", partial(allocate, rule)
        f, may = view.difficulty, eligible if who == "any" else None
        yield f"assign ({who})", partial(assign, f, view.clients, may, round=7, seed=0)
        given, scores = allocate(FedFair()), dict.fromkeys(view.tasks, 0.5)
        yield f"the verifier ({who})", partial(first_fault, given, view)
        yield (
            f"the fingerprint ({who})",
            partial(extend_chain, "00" * 32, 7, view.tasks, given, scores),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    todo = dict(contenders(given.clients, given.tasks))
    seconds: dict[str, list[float]] = {name: [] for name in todo}
    for repeat in range(given.repeats + 1):
        for name, act in todo.items():
            start = time.perf_counter()
            act()
            if repeat:  # the first call warms up
                seconds[name].append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
