"""Rounds may be closed at any time, from any thread; a state that cannot be stored ends them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest

import mmfl
from mmfl.errors import EngineError, StoreError
from mmfl.runs import Run, stored_rounds
from support.calling import Calling
from support.helpers import one_line


@pytest.fixture(params=["stored", "plain"])
def start(request, small):
    """From what is done in every round to rounds."""

    def start(act: Callable[[], object]) -> mmfl.Rounds:
        Calling.act[:] = [act]
        experiment = dataclasses.replace(small, allocator=Calling())
        stored = request.param == "stored"
        return stored_rounds(experiment, "out") if stored else mmfl.rounds(experiment)

    return start


def test_another_thread_may_close_them_while_a_round_is_computed(start, request):
    computing, go_on = Event(), Event()

    def pause() -> None:
        computing.set()
        assert go_on.wait(60)

    rounds, seen, errors = start(pause), [], []

    def iterate() -> None:
        try:
            seen.extend(record.round for _, record in rounds)
        except BaseException as error:
            errors.append(error)

    def close() -> None:
        try:
            rounds.close()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=iterate), Thread(target=close)]
    threads[0].start()
    assert computing.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert errors == []
    assert seen in ([1], [1, 2], [1, 2, 3])
    assert next(rounds, None) is None
    if "stored" in request.node.name and len(seen) < 3:
        assert (Run.load("out").status, Run.load("out").rounds) == ("stopped", len(seen))


def test_another_thread_may_close_them_between_rounds(start, request):
    rounds = start(lambda: None)
    next(rounds)
    thread = Thread(target=rounds.close)
    thread.start()
    thread.join(60)
    assert next(rounds, None) is None
    if "stored" in request.node.name:
        run = Run.load("out")
        assert (run.status, run.rounds, run.saved) == ("stopped", 1, 1)


def test_a_round_cannot_close_itself(start):
    here: list[Any] = []
    here.append(start(lambda: here[0].close()))  # noqa: PLW0108
    with pytest.raises(EngineError, match="cannot be closed by code that runs within a round"):
        next(here[0])


def test_a_state_that_no_checkpoint_can_hold_ends_the_run_with_one_sentence(small, monkeypatch):
    def allocate(self, view, state, *, rng):
        return real(self, view, state, rng=rng)[0], {"mine": object()}

    real = type(small.allocator).allocate
    monkeypatch.setattr(type(small.allocator), "allocate", allocate)
    assert "'allocator'" in one_line(StoreError, lambda: mmfl.run(small, "run"))
    assert Run.load("run").status == "failed"
