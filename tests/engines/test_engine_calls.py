"""Calls to the system that fail under a running engine: one sentence, or nothing at all."""

from __future__ import annotations

import socket

import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError
from mmfl.system import calls
from support.warm import children

TEXT = """
rounds = 1
[clients]
count = 4
[local]
epochs = 1
[engine]
workers = 1
[[tasks]]
name = "a"
dataset = { kind = "synthetic", classes = 3, train = 60, test = 20 }
model = { kind = "mlp", hidden = [4] }
"""


def failing(name: str, number: int, *, once: bool = True):
    """Run the experiment; the n-th call of that name fails, and without `once` all after it."""
    count = 0

    def interceptor(called, function, args, options):
        nonlocal count
        count += called == name
        if called == name and (count == number or (count > number and not once)):
            raise OSError(28, "No space left on device")
        return function(*args, **options)

    with calls.intercept(interceptor):
        *_, (state, _) = mmfl.rounds(Experiment.from_toml(TEXT))
    assert count >= number
    return state.fingerprint


@pytest.mark.parametrize(
    ("name", "number", "sentence"),
    [
        ("truncate", 1, "cannot extend a file"),
        ("mmap", 3, "cannot map a file"),
        ("socketpair", 1, "a process cannot be started"),
        ("wait", 4, "cannot wait for worker processes"),
    ],
)
def test_what_the_engine_cannot_do_without_is_one_sentence_and_no_worker_is_left(
    name, number, sentence
):
    before = children()
    with pytest.raises(EngineError, match=rf"^{sentence}[^\n]+No space left on device[^\n]*$"):
        failing(name, number, once=False)
    assert children() == before


@pytest.mark.parametrize(("name", "number"), [("memory file", 1), ("truncate", 1), ("reserve", 3)])
def test_updates_lie_on_the_disk_if_they_cannot_lie_in_memory(name, number):
    *_, (state, _) = mmfl.rounds(Experiment.from_toml(TEXT, sets=["engine.kind=inline"]))
    assert failing(name, number) == state.fingerprint


@pytest.mark.parametrize(("name", "number"), [("send", 5), ("receive", 1), ("receive", 4)])
def test_a_worker_that_cannot_be_talked_to_is_replaced(monkeypatch, name, number):
    monkeypatch.setattr("mmfl.engines.pool.PATIENCE", 0.5)
    *_, (state, _) = mmfl.rounds(Experiment.from_toml(TEXT, sets=["engine.kind=inline"]))
    assert failing(name, number) == state.fingerprint


@pytest.mark.parametrize("stray", [b"no JSON", b"[]", b"{}", b'{"number": 0}', b"\xff"])
def test_a_worker_whose_answer_is_not_an_answer_is_replaced(stray):
    """A library that a model loads may write to any descriptor."""
    straight, spoilt = fingerprint(), []

    def interceptor(called, function, args, options):
        found = function(*args, **options)
        if called == "receive" and not spoilt:
            spoilt.append(found)
            return stray
        return found

    with calls.intercept(interceptor):
        assert fingerprint() == straight
    assert spoilt


def test_a_default_timeout_of_sockets_is_not_that_of_workers():
    """Code that downloads often sets one, for the whole process."""
    straight, started = fingerprint(), []

    def interceptor(called, function, args, options):
        started.extend([called] if called == "spawn" else [])
        return function(*args, **options)

    socket.setdefaulttimeout(5.0)
    try:
        with calls.intercept(interceptor):
            assert fingerprint() == straight
    finally:
        socket.setdefaulttimeout(None)
    assert len(started) == 1  # none had to be replaced


def fingerprint() -> str:
    """Of the experiment; no turn of it may be lost."""
    *_, (state, record) = mmfl.rounds(Experiment.from_toml(TEXT))
    assert record.failures == ()
    return state.fingerprint
