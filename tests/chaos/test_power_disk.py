"""What a power cut may leave, in the smallest cases: the model that `chaos/power` rests on."""

from __future__ import annotations

import os

import pytest

from chaos.power.choices import MODELS, SECTORS, STYLES, Choice, build
from chaos.power.disk import History
from chaos.power.recording import Event, Kind

NEW = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
FOLDER = [Event(Kind.OPEN, 9, path="")]
"""Descriptor 9 is the folder itself."""


def states(history: History, model: str, *, sector: int = 512, cut: int | None = None) -> list:
    """Many states after a cut, by default at the end."""
    at = len(history.events) if cut is None else cut
    return [
        build(history, Choice(at, style, model, sector, f"{style} {number}")).tree
        for style in STYLES
        for number in range(30)
    ]


def create(name: str, data: bytes, fd: int = 3) -> list[Event]:
    return [Event(Kind.OPEN, fd, flags=NEW, path=name), Event(Kind.WRITE, fd, data=data)]


@pytest.mark.parametrize("sector", SECTORS)
def test_data_is_lost_kept_or_torn_until_it_is_synced(sector):
    old, new = b"a" * 8192, b"b" * 8192
    before = [Event(Kind.OPEN, 3, flags=os.O_WRONLY, path="x"), Event(Kind.WRITE, 3, data=new)]
    found = {tree["x"] for tree in states(History(before, {"x": old}), "weak", sector=sector)}
    assert {old, new} < found
    for body in found:
        pieces = {body[at : at + sector] for at in range(0, 8192, sector)}
        assert pieces <= {b"a" * sector, b"b" * sector}
    synced = [*before, Event(Kind.SYNC_DATA, 3)]
    assert {tree["x"] for tree in states(History(synced, {"x": old}), "weak")} == {new}


def test_a_sector_holds_what_it_held_at_some_moment():
    """A later write into a sector cannot be on disk without the earlier one."""
    events = [
        Event(Kind.OPEN, 3, flags=os.O_WRONLY, path="x"),
        Event(Kind.WRITE, 3, data=b"b"),
        Event(Kind.WRITE, 3, offset=1, data=b"c"),
    ]
    found = {tree["x"] for tree in states(History(events, {"x": b"aa"}), "weak")}
    assert found == {b"aa", b"ba", b"bc"}


def test_a_new_length_may_come_before_the_data_but_not_with_a_journal():
    events = [*FOLDER, *create("x", b"b" * 700), Event(Kind.SYNC, 9)]
    weak = {tree["x"] for tree in states(History(events), "weak")}
    assert {b"", bytes(700), b"b" * 700} < weak
    assert any(set(body) - {0, ord("b")} for body in weak)  # anything may be found there
    ordered = {tree["x"] for tree in states(History(events), "ordered")}
    assert ordered == {b"", b"b" * 700}


def test_a_synced_file_may_have_no_name_but_with_a_journal():
    events = [*create("x", b"b"), Event(Kind.SYNC, 3)]
    assert {tuple(tree.items()) for tree in states(History(events), "weak")} == {
        (),
        (("x", b"b"),),
    }
    assert {tuple(tree) for tree in states(History(events), "ordered")} == {("x",)}
    synced = [*events, *FOLDER, Event(Kind.SYNC, 9)]
    assert {tuple(tree) for tree in states(History(synced), "weak")} == {("x",)}


def test_a_rename_may_come_before_the_data():
    events = [*create("x.part", b"new"), Event(Kind.RENAME, path="x.part", to="x")]
    found = {tuple(tree.items()) for tree in states(History(events, {"x": b"old"}), "weak")}
    assert (("x", b""),) in found
    assert (("x", b"new"),) in found
    assert {dict(tree)["x"] for tree in found} >= {b"old", b"new", b""}
    whole = [*create("x.part", b"new"), Event(Kind.SYNC, 3), events[-1]]
    found = {tree["x"] for tree in states(History(whole, {"x": b"old"}), "weak")}
    assert found == {b"old", b"new"}


def test_names_are_lost_in_any_order_or_with_a_journal_from_the_end():
    events = [*create("x", b"", 3), *create("y", b"", 4), Event(Kind.UNLINK, path="x")]
    weak = {tuple(tree) for tree in states(History(events), "weak")}
    assert weak == {(), ("x",), ("y",), ("x", "y")}
    ordered = {tuple(tree) for tree in states(History(events), "ordered")}
    assert ordered == {(), ("x",), ("x", "y"), ("y",)}
    at = len(events) - 1  # before x is removed, y without x is not possible with a journal
    assert ("y",) in {tuple(tree) for tree in states(History(events), "weak", cut=at)}
    assert ("y",) not in {tuple(tree) for tree in states(History(events), "ordered", cut=at)}


@pytest.mark.parametrize("model", MODELS)
def test_what_was_truncated_does_not_come_back_below_new_data(model):
    events = [
        Event(Kind.OPEN, 3, flags=os.O_WRONLY, path="x"),
        Event(Kind.TRUNCATE, 3, offset=0),
        Event(Kind.WRITE, 3, offset=1024, data=b"b" * 512),
    ]
    for tree in states(History(events, {"x": b"a" * 2048}), model):
        body = tree["x"]
        assert body == b"a" * 2048 or b"a" * 10 not in body


@pytest.mark.parametrize("model", MODELS)
def test_a_folder_that_is_lost_takes_what_is_in_it_along(model):
    events = [
        Event(Kind.MKDIR, path="d"),
        *create("d/x", b"b"),
        Event(Kind.SYNC_DATA, 3),
        Event(Kind.OPEN, 4, path="d"),
        Event(Kind.SYNC_DATA, 4),
    ]
    found = {tuple(tree) for tree in states(History(events), model)}
    assert found == {(), ("d", "d/x")}


def test_a_mapped_file_holds_anything_and_no_data_is_a_new_state():
    events = [*create("shm", b"b" * 100), Event(Kind.SYNC, 3), Event(Kind.MAP, 3)]
    found = {tree.get("shm") for tree in states(History(events), "weak")}
    assert len(found) > 2
    assert History(events).mapped(len(events)) == {"shm"}
