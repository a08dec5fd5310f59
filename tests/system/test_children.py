"""A child's end is noticed, also by a socket that a fork of it holds open."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import warnings
from pathlib import Path

import pytest

from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.child import Child, _limit_silence

FORKS = """
import json, os, signal, struct, sys
socket = int(sys.argv[1])
fork = os.fork()
if not fork:
    signal.pause()
whole = json.dumps({"fork": fork}).encode()
os.write(socket, struct.pack("!i", len(whole)) + whole)
os.write(socket, struct.pack("!i", 1000) + b"half a message")
os.kill(os.getpid(), signal.SIGKILL)
"""
WAITS = """
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
with suppress(EOFError):
    Connection(int(sys.argv[1])).recv_bytes()
"""
ANSWERS = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
while True:
    connection.send_bytes(connection.recv_bytes())
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "forks_and_dies.py").write_text(FORKS)
    (tmp_path / "answers.py").write_text(ANSWERS)
    monkeypatch.syspath_prepend(tmp_path)
    return Child.start


def no_pidfd(name, function, args, options):
    if name == "pidfd":
        raise OSError(38, "Function not implemented")
    return function(*args, **options)


def no_waiting(name, function, args, options):
    if name == "wait":
        raise OSError(12, "Cannot allocate memory")
    return function(*args, **options)


def passed(name, function, args, options):
    return function(*args, **options)


@pytest.mark.parametrize("system", [passed, no_pidfd, no_waiting])
def test_what_a_dead_child_sent_is_received_and_then_it_is_gone(start, system):
    with calls.intercept(system):
        child = start("forks_and_dies")
        first = child.receive()
        assert first is not None
        try:
            assert child.receive() is None  # half a message, and a fork that could send the rest
            assert child.describe_end(60) == "was killed by signal 9"
        finally:
            os.kill(first["fork"], signal.SIGKILL)
            child.kill()


def test_a_child_that_no_byte_gets_through_to_is_given_up(start):
    child = start("answers", patience=0.01)
    child.process.send_signal(signal.SIGSTOP)
    child.send({"long": "x" * 10_000_000})
    assert child.receive() is None
    assert child.wait_for_end(60) == -signal.SIGKILL
    child.kill()


def test_a_fork_of_its_owner_cannot_end_a_child(start):
    child = start("answers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
        fork = os.fork()
    if not fork:
        child.hang_up()
        child.kill()
        os._exit(0)
    os.waitpid(fork, 0)
    child.send({"still": "there"})
    assert child.receive() == {"still": "there"}
    child.kill()


def test_a_child_that_cannot_be_watched_is_not_started(start):
    def no_threads(name, function, args, options):
        if name == "thread":
            raise RuntimeError("can't start new thread")
        return function(*args, **options)

    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = children.read_text()
    with (
        calls.intercept(no_threads),
        pytest.raises(EngineError, match=r"^a process cannot be started: can't start new thread$"),
    ):
        start("answers")
    assert children.read_text() == before


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_child_that_is_dropped_ends(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "waiting.py").write_text(WAITS)
    child = Child.start("waiting")
    process = child.process
    del child
    gc.collect()
    assert process.wait(60) == 0


@pytest.mark.parametrize("seconds", [1e-3, 0.5, 120.0, 1e19])
def test_any_patience_can_be_had(seconds):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        _limit_silence(ours, seconds)
