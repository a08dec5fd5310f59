from __future__ import annotations

import dataclasses
import json
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save

import mmfl
from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.errors import StoreError
from mmfl.exchange import Layout, Params
from mmfl.loop import State
from mmfl.objectives import Measured
from mmfl.runs.checkpoints import check_state, decode_state, encode_state
from support.crowd import mock, play
from support.helpers import one_line

LAYOUT = Layout((("w", (2, 3)), ("b", (3,)), ("none", (0,))))


def first(**changes) -> State:
    weights = Params(LAYOUT, np.arange(9, dtype=np.float32))
    return State.first({"a": weights, "b": weights}, "lineage").replace(**changes)


def again(state: State) -> State:
    document, parts = encode_state(state)
    content = {name: make() for name, (_, make) in parts.items()}
    return decode_state(document, content.__getitem__)


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
    if isinstance(one, set | frozenset):
        return sorted(map(text, one)) == sorted(map(text, other))
    if isinstance(one, Measured):
        return same(dataclasses.astuple(one), dataclasses.astuple(other))
    if isinstance(one, Params):
        return one.layout == other.layout and same(one.flat, other.flat)
    return one == other


def text(member) -> str:
    """The same for members of sets that are the same."""
    if isinstance(member, tuple):
        return f"tuple{[*map(text, member)]}"
    if isinstance(member, frozenset):
        return f"frozenset{sorted(map(text, member))}"
    if isinstance(member, int) and not isinstance(member, bool):
        return f"int {member:x}"
    return f"{type(member)} {member!r}"


def bits(array) -> bytes:
    return np.asarray(array).tobytes()


kinds = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
scalars = arrays.arrays(kinds, ()).map(lambda array: array[()])
members = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.just(float("nan"))
    | st.just(7**2000)
    | st.text()
    | st.text().map(np.str_)
    | scalars
    | st.just(Measured(0.5, float("nan"), 3)),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
plain = (
    members
    | arrays.arrays(kinds, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    | st.builds(lambda: Params(LAYOUT, np.full(9, -0.0, np.float32)))
)
nested = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(members, max_size=3)
        | st.frozensets(members, max_size=3)
        | st.dictionaries(members, inner, max_size=3)
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
    document, _ = encode_state(first())
    apart = {"params", "clients"}
    assert document["fields"].keys() | apart == {f.name for f in dataclasses.fields(State)}


@given(st.sets(members, max_size=6), st.randoms())
def test_a_set_is_written_in_an_order_that_depends_on_its_members_alone(value, random):
    shuffled = list(value)
    random.shuffle(shuffled)
    one, other = (encode_state(first(allocator=members))[0] for members in (value, set(shuffled)))
    assert json.dumps(one) == json.dumps(other)


LIST, ARRAY = [1], np.arange(6.0)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"a": LIST, "b": LIST}, "list"),
        ((LIST, [LIST]), "list"),
        ([ARRAY, ARRAY], "array (or a part of it)"),
        ({"all": ARRAY, "last": ARRAY[4:]}, "array (or a part of it)"),
        ([ARRAY[::2], ARRAY[2:3]], "array (or a part of it)"),
        ([Params(LAYOUT, weights := np.zeros(9, np.float32)), weights], "array (or a part of it)"),
    ],
)
def test_what_occurs_twice_is_refused_since_it_would_come_back_as_two(value, kind):
    said = one_line(StoreError, lambda: encode_state(first(allocator=value)))
    whose = "a checkpoint cannot hold the state of 'allocator'"
    assert said == f"{whose}: the same {kind} occurs twice in it; copy it"
    one_line(StoreError, lambda: check_state(value, "allocator"))


def test_what_cannot_change_may_occur_twice():
    fixed, pair = np.arange(3.0), (1, 2)
    fixed.flags.writeable = False
    value = [pair, pair, fixed, fixed, ARRAY[::2], ARRAY[1::2]]
    assert same(again(first(allocator=value)).allocator, value)


def test_tuples_in_sets_and_tuples_as_keys():
    value = {"pairs": {(1, "a"), (0, "b")}, (0, 1): frozenset({("x",), None, 1.5, np.int8(3)})}
    assert same(again(first(allocator=value)).allocator, value)


def test_checkpoints_of_older_versions_are_read():
    document, parts = encode_state(first(allocator=np.arange(2.0)))
    content = {name: make() for name, (_, make) in parts.items()}
    document["fields"]["aggregator"] = {"scalar": document["fields"]["allocator"]["array"]}
    document["fields"]["allocator"] = {"set": [1, 2]}
    content["arrays"] = save({"0": np.array(2.5, np.float32)})
    back = decode_state(document, content.__getitem__)
    assert same(back.allocator, frozenset({1, 2}))
    assert same(back.aggregator, np.float32(2.5))


def itself() -> list:
    found: list = []
    found.append(found)
    return found


def deep(levels: int) -> tuple:
    return reduce(lambda inner, _: (inner,), range(levels), ())


def test_nesting_has_a_limit_that_can_always_be_read_back():
    assert same(again(first(allocator=deep(100))).allocator, deep(100))


class Word(str):
    __slots__ = ()


class Pair(NamedTuple):
    one: int
    two: int


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"x": [lambda: 0]},
        np.array(["text"]),
        np.array([None]),
        1j,
        b"raw",
        Word("comes back as a str"),
        Pair(1, 2),
        OrderedDict(a=1),
        defaultdict(list, a=[1]),
        np.ma.masked_array([1.0], [True]),
        np.longlong(1) if np.dtype("q").type is not np.dtype("l").type else 1j,
        {object()},
        {Pair(1, 2): 1},
        deep(101),
        itself(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_held_is_one_sentence(value):
    said = one_line(StoreError, lambda: encode_state(first(allocator=value)))
    assert "'allocator'" in said


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("abc"), "a plain dict (not Counter)"),
        (OrderedDict(a=1), "a plain dict (not OrderedDict)"),
        (defaultdict(list, a=[1]), "a plain dict (not defaultdict)"),
        (MappingProxyType({"a": 1}), "a plain dict (not mappingproxy)"),
        (deque([1]), "a plain list (not deque)"),
        (Pair(1, 2), "a plain tuple (not Pair)"),
        (Word("x"), "a plain str (not Word)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_type_that_is_like_a_plain_one_is_told_which(value, plain):
    said = one_line(StoreError, lambda: encode_state(first(allocator={"x": [value]})))
    article = "an" if isinstance(value, OrderedDict) else "a"
    assert said.endswith(f"it contains {article} {type(value).__name__}; use {plain}")
