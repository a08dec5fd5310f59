"""The memory of clients: a table that behaves like a dictionary, and never changes."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.loop import ClientTable

TASKS = ("b", "a", "c")
ids = st.sampled_from([0, 1, 2, 3, 7, 8, 2**40, 2**63 - 1]) | st.integers(0, 60)
numbers = st.floats(-1e9, 1e9)
turns = st.tuples(ids, st.sampled_from(TASKS), numbers, numbers)
histories = st.lists(st.lists(turns, max_size=30), max_size=12)


def told(history):
    """A plain dictionary from client and task to (turns, last loss, last norm)."""
    known = {}
    for turns in history:
        for client, task, loss, norm in turns:
            known[client, task] = (known.get((client, task), (0,))[0] + 1, loss, norm)
    return known


def assert_tells(table, known):
    clients = sorted({client for client, _ in known})
    assert table.ids.tolist() == clients
    assert table.ids.dtype == table.counts.dtype == np.int64
    for number, (array, nothing) in enumerate(
        [(table.counts, 0), (table.loss, np.nan), (table.norm, np.nan)]
    ):
        expected = [
            [known.get((k, task), (nothing,) * 3)[number] for task in TASKS] for k in clients
        ]
        np.testing.assert_array_equal(array, np.array(expected).reshape(len(clients), len(TASKS)))


@given(histories)
def test_every_table_of_a_history_stays_what_it_was(history):
    tables = [ClientTable.empty(TASKS)]
    for turns in history:
        tables.append(tables[-1].after(turns))
    for rounds, table in enumerate(tables):
        assert_tells(table, told(history[:rounds]))


@given(histories, histories, histories)
def test_two_futures_of_one_table_do_not_know_each_other(past, one, other):
    table = ClientTable.empty(TASKS)
    for turns in past:
        table = table.after(turns)
    for future in (one, other):
        then = table
        for turns in future:
            then = then.after(turns)
        assert_tells(then, told(past + future))


@given(histories, st.lists(ids), st.permutations(TASKS), st.integers(0, 3))
def test_rows_are_found_by_id_and_name_in_any_order(history, asked, names, some):
    table = ClientTable.empty(TASKS)
    for turns in history:
        table = table.after(turns)
    known = told(history)
    names = names[:some]
    found = table.rows(np.array(asked, np.int64), names)
    for number, (array, nothing) in enumerate(zip(found, (0, np.nan, np.nan), strict=True)):
        assert array.shape == (len(asked), some)
        expected = [[known.get((k, task), (nothing,) * 3)[number] for task in names] for k in asked]
        np.testing.assert_array_equal(array, np.array(expected).reshape(array.shape))


@given(histories)
def test_the_whole_is_an_equal_table(history):
    table = ClientTable.empty(TASKS)
    for turns in history:
        table = table.after(turns)
    copy = ClientTable(TASKS, (table.whole,))
    assert_tells(copy, told(history))
    keys = list(zip(copy.whole.ids.tolist(), copy.whole.columns.tolist(), strict=True))
    assert keys == sorted(set(keys))


def crowd(rng, clients, active):
    """A round's turns, as the loop tells them: task after task, each by ascending client."""
    who = np.sort(rng.choice(clients, active, replace=False)).tolist()
    what = rng.integers(0, len(TASKS), active).tolist()
    draws = rng.random((2, active)).tolist()
    return sorted(zip(who, [TASKS[s] for s in what], *draws, strict=True), key=lambda turn: turn[1])


def test_long_histories_of_many_clients():
    rng = np.random.default_rng(0)
    for clients in (3000, 10**6):
        history = [crowd(rng, clients, 2000) for _ in range(10)]
        table = ClientTable.empty(TASKS)
        for turns in history:
            table = table.after(turns)
        assert_tells(table, told(history))


@pytest.mark.parametrize("tasks", [3, 30])
def test_a_client_costs_a_few_bytes_for_each_task_it_had_a_turn_at(tasks):
    rng = np.random.default_rng(0)
    table = ClientTable.empty([*TASKS, *map(str, range(3, tasks))])
    for _ in range(20):
        table = table.after(crowd(rng, 10**9, 1000))
    held = {id(array): array for segment in table.segments for array in segment}
    assert sum(array.base is not None for array in held.values()) == 0, "no slice of a larger one"
    assert sum(array.nbytes for array in held.values()) <= 30 * 20_000


def test_a_round_costs_the_same_however_many_clients_had_a_turn():
    """Amortised: rows written over many rounds, by the arrays that a table does not share."""
    rng = np.random.default_rng(0)
    written = {}
    for rounds in (64, 256):
        table, rows = ClientTable.empty(TASKS), 0
        for _ in range(rounds):
            after = table.after(crowd(rng, 10**9, 100))
            old = set(map(id, table.segments))
            rows += sum(len(s.ids) for s in after.segments if id(s) not in old)
            table = after
            assert len(after.segments) <= 10
        written[rounds] = rows / rounds
    assert written[256] <= 100 * (np.log2(256) + 2)
    assert written[256] - written[64] <= 100 * 3


def test_looking_up_takes_memory_for_those_asked_and_not_for_those_known():
    rng = np.random.default_rng(0)
    table = ClientTable.empty(TASKS)
    for _ in range(10):
        table = table.after(crowd(rng, 10**9, 20_000))
    asked = np.sort(rng.choice(table.ids, 100))
    tracemalloc.start()
    try:
        table.rows(asked, TASKS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000 < sys.getsizeof(table.whole.ids) / 10
