"""What a rule remembers of clients: the same as a dictionary by client and task."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate.memory import recall, remember

UNKNOWN = {"seen": -1, "sum": 0.0}


@given(st.integers(0, 2**32))
def test_it_is_a_dictionary_by_client_and_task(seed):
    numbers, memory = np.random.default_rng(seed), None
    seen, sums = {}, {}
    for t in range(6):
        tasks = numbers.permutation(["a", "b", "c"])[: numbers.integers(1, 4)].tolist()
        clients = np.flatnonzero(numbers.random(9) < 0.5) * 7
        before = memory and {k: v if k == "tasks" else v.copy() for k, v in memory.items()}
        got = recall(memory, tasks, clients, UNKNOWN)
        assert got["seen"].tolist() == [seen.get(client, -1) for client in clients.tolist()]
        want = [[sums.get((client, task), 0.0) for task in tasks] for client in clients.tolist()]
        assert got["sum"].tolist() == want
        values = {
            "seen": np.full(len(clients), t),
            "sum": numbers.random((len(clients), len(tasks))),
        }
        older, memory = memory, remember(memory, tasks, clients, values)
        assert memory["ids"].tolist() == sorted({*seen, *clients.tolist()})
        if before is not None:
            for name, array in before.items():
                np.testing.assert_array_equal(older[name], array)
        sums = {place: v for place, v in sums.items() if place[1] in tasks}  # others are forgotten
        for row, client in enumerate(clients.tolist()):
            seen[client] = t
            sums |= {(client, task): values["sum"][row, s] for s, task in enumerate(tasks)}
