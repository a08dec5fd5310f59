from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import mmfl
from crowd import mock, play
from helpers import one_line
from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.checkpoints import decoded, encoded
from mmfl.errors import StoreError
from mmfl.params import Layout, Params
from mmfl.state import State

LAYOUT = Layout((("w", (2, 3)), ("b", (3,)), ("none", (0,))))


def first(**changes) -> State:
    weights = Params(LAYOUT, np.arange(9, dtype=np.float32))
    return State.first({"a": weights, "b": weights}, "lineage").replace(**changes)


def again(state: State) -> State:
    document, parts = encoded(state)
    content = {name: make() for name, (_, make) in parts.items()}
    return decoded(document, content.__getitem__)


def same(one, other) -> bool:
    """Equal to the bit, and of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and bits(one) == bits(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, Params):
        return one.layout == other.layout and same(one.flat, other.flat)
    return one == other


def bits(array) -> bytes:
    return np.asarray(array).tobytes()


kinds = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.just(float("nan"))
    | st.text()
    | arrays.arrays(kinds, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    | st.frozensets(st.integers())
    | st.just(Params(LAYOUT, np.full(9, -0.0, np.float32)))
    | st.floats(width=32).map(np.float32)
)
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(nested)
def test_any_state_of_an_allocator_comes_back_to_the_bit(value):
    assert same(again(first(allocator=value)).allocator, value)


@given(nested, nested)
def test_so_does_that_of_an_aggregator_for_each_task(one, other):
    assert same(again(first(aggregator={"a": one, "b": other})).aggregator, {"a": one, "b": other})


def test_the_loops_states_come_back_and_go_on_to_the_same_bits(small):
    states = [state for state, _ in mmfl.rounds(small)]
    for state in states:
        back = again(state)
        assert back.fingerprint == state.fingerprint
        for name in ("round", "versions", "difficulty", "measured", "chain", "stale", "lineage"):
            assert getattr(back, name) == getattr(state, name)
        assert all(map(same, back.clients.whole, state.clients.whole))
        *_, (last, _) = [(states[-1], None), *mmfl.rounds(small, state=back)]
        assert last.fingerprint == states[-1].fingerprint


@pytest.mark.parametrize("aggregator", AGGREGATORS.table)
@pytest.mark.parametrize("allocator", ALLOCATORS.table)
def test_with_every_rule_the_loop_goes_on_from_a_checkpoint(allocator, aggregator):
    rules = {
        "allocator": ALLOCATORS.parse(allocator),
        "aggregator": AGGREGATORS.parse(aggregator),
    }
    engine = mock(changes=rules)
    states = [state for state, _ in play(engine)]
    for state in states[:-1]:
        *_, (last, _) = mmfl.rounds(engine.experiment, engine=engine, state=again(state))
        assert last.fingerprint == states[-1].fingerprint
        assert same(last.allocator, states[-1].allocator)
        assert same(last.aggregator, states[-1].aggregator)


def test_every_field_of_a_state_is_saved():
    document, _ = encoded(first())
    apart = {"params", "clients"}
    assert document["fields"].keys() | apart == {f.name for f in dataclasses.fields(State)}


@pytest.mark.parametrize(
    "value", [object(), {"x": [lambda: 0]}, np.array(["text"]), np.array([None]), 1j, b"raw"]
)
def test_what_cannot_be_held_is_one_sentence(value):
    said = one_line(StoreError, lambda: encoded(first(allocator=value)))
    assert "'allocator'" in said
