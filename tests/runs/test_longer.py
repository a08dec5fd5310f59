"""A run that gets more rounds later is the run that had them from the start, row by row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import mmfl
from support.marks import slow


def stored(folder: str) -> list[list[tuple]]:
    """All that a run's database tells of its rounds, but times."""
    queries = (
        "SELECT round, active, samples, fresh, chain, assignment FROM round",
        "SELECT * FROM round_task ORDER BY round, task",
        "SELECT * FROM meta WHERE key IN ('status', 'rounds', 'fingerprint')",
    )
    with closing(sqlite3.connect(f"{folder}/run.sqlite")) as database:
        return [database.execute(query).fetchall() for query in queries]


@pytest.mark.parametrize(
    ("lengths", "split"),
    [slow((5, 12), "validation"), ((2, 5, 7, 12), "validation"), ((5, 12), "test")],
)
def test_a_run_made_longer_stores_what_a_straight_one_does(small, lengths, split):
    longest = replace(small, score_split=split, evaluate=replace(small.evaluate, every=4))
    straight = mmfl.run(replace(longest, rounds=12), "straight")
    for rounds in lengths:
        run = mmfl.run(replace(longest, rounds=rounds), "run", resume=True)
        assert all(task["metric"] is not None for task in run.tasks.values())  # of the last round
    assert run.fingerprint == straight.fingerprint
    assert str(run.history) == str(straight.history)  # NaN is not equal to itself
    assert stored("run") == stored("straight")


def test_rounds_go_on_from_the_last_state_of_a_shorter_run_with_the_same_records(small):
    longer = replace(small, rounds=6, evaluate=replace(small.evaluate, every=3))
    state, last = list(mmfl.rounds(replace(longer, rounds=4)))[-1]
    assert last.fresh
    records = [record for _, record in mmfl.rounds(longer)]
    for (_, record), straight in zip(mmfl.rounds(longer, state=state), records[4:], strict=True):
        assert str(record.metric) == str(straight.metric)
        assert record.fresh == straight.fresh
