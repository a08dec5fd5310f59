"""The Ray engine: its connection to Ray, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from mmfl.engines.ray.connection import connect
from mmfl.errors import EngineError
from support.helpers import one_line
from support.ray_nodes import descendants
from support.warm import children


def listeners() -> set[str]:
    """The addresses on which this process and those below it listen."""
    sockets = set()
    for process in descendants(os.getpid()):
        for file in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(os.readlink(file))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, number = line.split()[:10]
            if state == "0A" and f"socket:[{number}]" in sockets:
                found.add(local.partition(":")[0])
    return found


@pytest.mark.engines
def test_a_ray_of_our_own_listens_on_this_machine_only_and_leaves_nothing_behind(capfd):
    pytest.importorskip("ray")
    known, handler = children(), signal.getsignal(signal.SIGTERM)
    folders = set(Path(tempfile.gettempdir()).glob("mmfl-ray-*"))
    environment = dict(os.environ)
    first, second = connect(None, memory=100 << 20), connect(None)
    try:
        assert first.own
        assert listeners()
        assert listeners() <= {"0100007F", "0000000000000000FFFF00000100007F"}
        assert "another" not in one_line(EngineError, lambda: connect("127.0.0.1:1"))
    finally:
        first.release()
        first.release()
        assert first.ray.is_initialized()
        second.release()
    assert not first.ray.is_initialized()
    assert (children(), listeners()) == (known, set())
    assert set(Path(tempfile.gettempdir()).glob("mmfl-ray-*")) == folders
    assert signal.getsignal(signal.SIGTERM) is handler
    assert dict(os.environ) == environment
    assert capfd.readouterr() == ("", "")


def test_without_ray_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = one_line(EngineError, lambda: connect(None))
    assert said.endswith("which is not installed: pip install 'mmfl[ray]'")
