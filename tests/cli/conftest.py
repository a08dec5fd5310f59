"""Calling the command line, and watching it on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mmfl.cli import main


@pytest.fixture
def call(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """From arguments to exit code, standard output and standard error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["mmfl", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


@pytest.fixture
def no_figures(monkeypatch) -> None:
    """Matplotlib is not installed: figures take their time, and not every test is about them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def on_terminal() -> Callable[[Sequence[str]], str]:
    """From a command to all that it shows on a terminal of 120 columns; it must succeed."""

    def on_terminal(command: Sequence[str]) -> str:
        ours, theirs = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
        process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not data:
                break
            shown += data
        os.close(ours)
        assert process.wait() == 0
        return shown.decode()

    return on_terminal
