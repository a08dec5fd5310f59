"""Components, families, `--set`, and the way to plain values and back."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl.config import (
    apply_set,
    dump,
    parse,
    short,
)
from mmfl.errors import InputError, MmflError, did_you_mean
from support.shapes import SHAPES, STRICT, Box, Circle, Floor, Numbers, Tile, sentence, shape_error

# Components


def test_a_component_is_frozen() -> None:
    box = Box(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        box.width = 2.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del box.width
    assert box == Box(1.0)


def test_positional_and_keyword_arguments_mean_the_same() -> None:
    assert (
        Box(3.0, 4.0, "a") == Box(label="a", height=4.0, width=3.0) == Box(3.0, label="a", height=4)
    )


def test_too_many_positional_arguments_are_counted() -> None:
    assert sentence(lambda: Box(1.0, 2.0, "a", 4)) == "Box takes at most 3 values, got 4"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Box(-1.0), "Box: width must be greater than 0, got -1.0"),
        (lambda: Box(width="wide"), "Box: width must be a number, got 'wide'"),
        (Box, "Box: width is missing"),
        (lambda: Box(1.0, heigth=2.0), "Box: heigth is not a known key; did you mean 'height'?"),
        (lambda: Circle(zzzz=1), "Circle: zzzz is not a known key; known: radius"),
        (lambda: Box(0.0, 0.0), "Box: width must be greater than 0, got 0.0 (and 1 more error)"),
        (lambda: Tile({"kind": "box"}), "Tile: shape.width is missing"),
        (lambda: Floor(tiles=[{}, {"count": 0}]), "Floor: tiles[1].count must be greater than or "),
    ],
)
def test_a_wrong_argument_is_one_sentence(act: Callable[[], object], message: str) -> None:
    assert sentence(act).startswith(message)


def test_a_long_value_is_cut_short() -> None:
    message = sentence(lambda: Box("w" * 1000))
    assert "width" in message
    assert len(message) < 120


def test_a_wrong_argument_is_a_value_error_without_a_trace_of_pydantic() -> None:
    with pytest.raises(ValueError, match="width") as caught:
        Box(-1.0)
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, MmflError)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 0),
        ("count", True),
        ("count", 1.0),
        ("count", "1"),
        ("natural", -1),
        ("natural", False),
        ("positive", 0.0),
        ("positive", math.inf),
        ("positive", math.nan),
        ("positive", True),
        ("positive", "1"),
        ("non_negative", -1e-9),
        ("non_negative", math.inf),
        ("share", 0.0),
        ("share", 1.1),
        ("share", math.nan),
        ("text", ""),
        ("text", 1),
    ],
)
def test_number_types_refuse(field: str, value: object) -> None:
    message = sentence(lambda: Numbers(**{field: value}))
    assert message.startswith(f"Numbers: {field} must")
    assert message.endswith(f"got {value!r}")


def test_number_types_accept_their_borders() -> None:
    made = Numbers(count=1, natural=0, positive=5e-324, non_negative=0, share=1, text=" ")
    assert dataclasses.astuple(made) == (1, 0, 5e-324, 0.0, 1.0, " ")


sizes = st.floats(1e-3, 1e3)
circles = st.builds(Circle, sizes)
boxes = st.builds(Box, sizes, sizes, st.none() | st.text(min_size=1))
tiles = st.builds(Tile, circles | boxes, st.integers(1, 10**9))
floors = st.builds(Floor, st.lists(tiles, max_size=3).map(tuple), tiles, boxes)


@given(floors)
def test_equal_components_hash_equal_and_survive_pickle(floor: Floor) -> None:
    again = pickle.loads(pickle.dumps(floor))
    assert again == floor
    assert hash(again) == hash(floor)
    assert type(again) is Floor


def test_whole_and_floating_numbers_make_the_same_component() -> None:
    assert Box(1, 2) == Box(1.0, 2.0)
    assert hash(Box(1, 2)) == hash(Box(1.0, 2.0))
    assert Box(1.0) != Box(1.5)
    assert Circle() != Box(1.0)


def test_a_component_prints_its_fields() -> None:
    assert repr(Box(1.0)) == "Box(width=1.0, height=2.0, label=None)"


# Families


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ({"kind": "box", "width": 3}, Box(3.0)),
        ({"kind": "circle"}, Circle()),
        ("circle", Circle()),
        (2.5, Circle(2.5)),
        (2, Circle(2.0)),
        (Box(4.0), Box(4.0)),
    ],
)
def test_a_family_reads(value: object, made: object) -> None:
    assert parse(Tile, {"shape": value}).shape == made


def test_a_family_does_not_change_the_table_it_reads() -> None:
    table = {"kind": "box", "width": 3}
    parse(Tile, {"shape": table})
    assert table == {"kind": "box", "width": 3}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "bix"}, "shape.kind: unknown shape 'bix'; did you mean 'box'?"),
        ({"kind": "zzzz"}, "shape.kind: unknown shape 'zzzz'; known: box, circle"),
        ({"width": 3}, "shape needs a 'kind' (known: box, circle)"),
        ({"kind": 3}, "shape.kind must be the name of a kind (known: box, circle), got 3"),
        ({}, "shape needs a 'kind' (known: box, circle)"),
        ({"kind": "box", "width": -1}, "shape.width must be greater than 0, got -1"),
        ({"kind": "box", "widht": 1, "width": 1}, "shape.widht is not a known key; did you mean"),
        (-2.5, "shape must be greater than 0, got -2.5"),
        (True, "shape must be a number, got True"),
        ("bix", "shape must be a number, got 'bix'"),
        ([1], "shape must be a table with 'kind', or the name of a kind, got [1]"),
        (None, "shape must be a table with 'kind', or the name of a kind, got None"),
    ],
)
def test_a_family_refuses(value: object, message: str) -> None:
    assert shape_error(value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2.5, "solid must be a table with 'kind', or the name of a kind, got 2.5"),
        ("bix", "solid.kind: unknown solid 'bix'; did you mean 'box'?"),
        ("box", "solid.width is missing"),
    ],
)
def test_a_family_without_scalar_refuses_bare_values(value: object, message: str) -> None:
    assert sentence(lambda: parse(Floor, {"solid": value})) == message


def test_kind_of_names_members_and_strangers() -> None:
    assert SHAPES.kind_of(Box(1.0)) == "box"
    assert STRICT.kind_of(Circle()) == "support.shapes:Circle"


# Plain values and back


@given(floors)
def test_parse_undoes_dump(floor: Floor) -> None:
    assert parse(Floor, dump(floor)) == floor


def test_dump_gives_plain_values() -> None:
    floor = Floor(tiles=(Tile(2.5), Tile(Box(3.0))), first=Tile(count=7))
    assert dump(floor) == {
        "tiles": [
            {"shape": 2.5, "count": 1},
            {"shape": {"kind": "box", "width": 3.0, "height": 2.0}, "count": 1},
        ],
        "first": {"shape": 1.0, "count": 7},
        "solid": {"kind": "box", "width": 1.0, "height": 2.0},
    }


def test_parse_refuses_unknown_keys_where_they_stand() -> None:
    message = sentence(lambda: parse(Floor, {"tiles": [{}, {"cuont": 2}]}))
    assert message == "tiles[1].cuont is not a known key; did you mean 'count'?"
    message = sentence(lambda: parse(Floor, {"frist": {}}))
    assert message == "frist is not a known key; did you mean 'first'?"


def test_an_unknown_key_with_a_line_break_is_still_one_line() -> None:
    assert "is not a known key" in sentence(lambda: parse(Floor, {"a\nb": 1}))


# --set


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-0.5", -0.5),
        ("1e-3", 1e-3),
        ("inf", math.inf),
        ("true", True),
        ("false", False),
        ('"5"', "5"),
        ("'a b'", "a b"),
        ("word", "word"),
        ("two words", "two words"),
        ("True", "True"),
        ("[1, 2.5]", [1, 2.5]),
        ("{a = 1}", {"a": 1}),
        ("a=b", "a=b"),
        ("package.module:Name", "package.module:Name"),
        ("", ""),
    ],
)
def test_set_reads_toml_or_else_text(text: str, value: object) -> None:
    data: dict[str, Any] = {}
    apply_set(data, f"key={text}")
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


def test_set_makes_the_tables_on_its_way() -> None:
    data: dict[str, Any] = {"a": {"x": 1}}
    apply_set(data, "a.b.c=2")
    apply_set(data, " d . e = 3")
    assert data == {"a": {"x": 1, "b": {"c": 2}}, "d": {"e": 3}}


def test_set_finds_list_items_by_name_then_by_number() -> None:
    data: dict[str, Any] = {"tasks": [{"name": "1"}, {"name": "b"}, {}]}
    apply_set(data, "tasks.b.lr=1")
    apply_set(data, "tasks.0.lr=0")
    apply_set(data, "tasks.1.lr=7")
    apply_set(data, "tasks.2.model.kind=cnn")
    assert data["tasks"] == [
        {"name": "1", "lr": 7},
        {"name": "b", "lr": 1},
        {"model": {"kind": "cnn"}},
    ]


def test_another_kind_starts_from_its_defaults() -> None:
    data: dict[str, Any] = {"shape": {"kind": "box", "width": 3}, "count": 2}
    apply_set(data, "shape.kind=circle")
    assert data == {"shape": {"kind": "circle"}, "count": 2}


def test_the_same_kind_keeps_its_parameters() -> None:
    data: dict[str, Any] = {"shape": {"kind": "box", "width": 3}}
    apply_set(data, "shape.kind=box")
    assert data == {"shape": {"kind": "box", "width": 3}}


def test_set_adds_parameters_to_a_bare_kind() -> None:
    data: dict[str, Any] = {"shape": "box"}
    apply_set(data, "shape.width=3")
    assert data == {"shape": {"kind": "box", "width": 3}}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rounds", "sets: must be a.b=c, got 'rounds'"),
        ("=5", "sets: must be a.b=c, got '=5'"),
        ("a..b=5", "sets: must be a.b=c, got 'a..b=5'"),
        ("a.=5", "sets: must be a.b=c, got 'a.=5'"),
        ("", "sets: must be a.b=c, got ''"),
        ("rounds.x=5", "rounds is not a table"),
        ("rounds.x.y=5", "rounds is not a table"),
        ("tasks.fashoin.lr=5", "tasks has no 'fashoin'; did you mean 'fashion'?"),
        ("tasks.2.lr=5", "tasks has no '2'; known: fashion, letters"),
        ("tasks.-1.lr=5", "tasks has no '-1'"),
        ("tasks.².lr=5", "tasks has no '²'"),
        ("tasks.fashion=5", "must also name a key of the item"),
        ("words.a.lr=5", "words"),
    ],
)
def test_set_refuses_and_changes_nothing(assignment: str, message: str) -> None:
    def data() -> dict[str, Any]:
        return {"rounds": 3, "tasks": [{"name": "fashion"}, {"name": "letters"}], "words": ["a"]}

    changed = data()
    assert message in sentence(lambda: apply_set(changed, assignment))
    assert changed == data()


# Suggestions


@pytest.mark.parametrize(
    ("word", "known", "clause"),
    [
        ("alhpa", ["floor", "alpha"], "did you mean 'alpha'?"),
        ("zzz", ["floor", "alpha"], "known: alpha, floor"),
        ("", ["b", "a"], "known: a, b"),
        ("zzz", [], "none is known"),
        ("alpha", iter(["alpha"]), "did you mean 'alpha'?"),
    ],
)
def test_did_you_mean(word: str, known: Any, clause: str) -> None:
    assert did_you_mean(word, known) == clause


@given(st.lists(st.text(min_size=1), min_size=1, unique=True), st.data())
def test_did_you_mean_finds_a_known_word(known: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(known))
    assert did_you_mean(word, known) == f"did you mean {word!r}?"


def test_a_number_with_too_many_digits_can_stand_in_a_message():
    assert short(10**5000) == "a number with too many digits"
    assert short([10**5000]) == "a list"


def test_numbers_of_numpy_are_numbers():
    made = mmfl.Experiment(
        rounds=np.int64(3), clients=np.int32(4), seed=np.uint8(1), validation=np.float32(0.25),
        tasks=[mmfl.Task("a", "mnist_small", lr=np.float64(0.5), prox=np.float32(0.5))],
    )  # fmt: skip
    assert (made.rounds, made.clients.count, made.seed, made.validation) == (3, 4, 1, 0.25)
    assert type(made.rounds) is int
    assert mmfl.Experiment.from_toml(made.to_toml()) == made
