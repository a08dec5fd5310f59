"""The running hash of a run, by its definition."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import Assignments
from mmfl.loop import extend_chain

TASKS = ("b", "a", "é")


def plainly(chain, t, tasks, assigned, difficulty):
    digest = hashlib.sha256(bytes.fromhex(chain) + struct.pack("<q", t))
    for name in sorted(tasks):
        clients = sorted(client for client, task in assigned if tasks[task] == name)
        digest.update(repr((name, len(clients))).encode())
        digest.update(struct.pack(f"<{len(clients)}q", *clients))
        digest.update(struct.pack("<d", difficulty[name]))
    return digest.hexdigest()


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint64, np.int32])
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2))),
    st.lists(st.floats(), min_size=3, max_size=3),
)
def test_the_chain_is_what_it_says(kind, assigned, scores):
    clients, tasks = zip(*assigned, strict=True) if assigned else ((), ())
    given_ = Assignments(np.array(clients, kind), np.array(tasks, kind), np.ones(len(tasks)))
    difficulty = dict(zip(TASKS, scores, strict=True))
    found = extend_chain("ab" * 32, 5, TASKS, given_, difficulty)
    assert found == plainly("ab" * 32, 5, TASKS, assigned, difficulty)
    assert given_.clients.tolist() == list(clients), "the assignments are not touched"
