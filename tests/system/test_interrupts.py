"""Signals as one exception."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress

import pytest

from mmfl.system.interrupts import Interrupt, interruptible

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers_stay():
    before = {number: signal.getsignal(number) for number in STOPS}
    for number in STOPS:  # under nohup some are ignored
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOPS)
def test_the_first_signal_is_an_exception_and_the_others_change_nothing(number):
    undo = ExitStack()
    for other in (*STOPS, *STOPS):
        undo.callback(send, other)
    with pytest.raises(Interrupt) as caught, interruptible(), undo:
        send(number)
    assert caught.value.exit_code == 128 + number
    assert isinstance(caught.value, KeyboardInterrupt)
    for other in STOPS:  # the program is about to end
        send(other)


def test_an_exception_that_was_dropped_is_raised_again_by_the_next_signal():
    with interruptible() as signals:
        with suppress(Interrupt):
            send(signal.SIGINT)
        assert signals.interrupt is None
        with pytest.raises(Interrupt):
            send(signal.SIGTERM)


def test_handlers_are_as_before_if_there_was_no_signal():
    before = [signal.getsignal(number) for number in STOPS]
    with interruptible():
        assert [signal.getsignal(number) for number in STOPS] != before
    assert [signal.getsignal(number) for number in STOPS] == before


def test_what_is_ignored_stays_ignored_except_sigterm():
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    with interruptible():
        send(signal.SIGHUP)
        send(signal.SIGINT)
        with pytest.raises(Interrupt):
            send(signal.SIGTERM)


def test_something_can_be_done_before_the_exception():
    done = []
    with interruptible(lambda: done.append("ready")), pytest.raises(Interrupt):
        send(signal.SIGTERM)
    assert done == ["ready"]
