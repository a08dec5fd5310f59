"""Tracebacks of turns that failed because a user's code raised, each shown once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmfl.exchange import ClientFailure

__all__ = ["find_new_traces"]


def find_new_traces(failures: Iterable[ClientFailure], known: set[str]) -> Iterator[str]:
    """The tracebacks of these failures that lead through other lines than those before.

    Args:
        failures: Turns and evaluations that failed.
        known: Which ways through the code are known; this function adds to it.
    """
    for failure in failures:
        _, number, task, client, _ = failure.address
        way = "\n".join(line for line in failure.trace.splitlines() if line.startswith("  "))
        if failure.trace and f"{task}\n{way}" not in known:
            known.add(f"{task}\n{way}")
            yield f"round {number}, task {task!r}, client {client}:\n{failure.trace}"
