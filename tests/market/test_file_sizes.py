"""A file of bids that is too large is refused before it fills the memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mmfl import Experiment
from mmfl.errors import InputError
from mmfl.market import read_bids
from mmfl.market.bids_io import files
from mmfl.system.files import TABLE
from support.experiments import LEAST_INLINE
from support.helpers import one_line

HEAD = "client,a,b\n"


def refuse(content: str) -> str:
    Path("bids.csv").write_text(content)
    return one_line(InputError, lambda: read_bids("bids.csv"))


def test_a_file_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr("mmfl.system.calls.read", None)
    monkeypatch.setattr(files, "_read", None)
    Path("bids.csv").touch()
    os.truncate("bids.csv", TABLE + 1)  # a hole: it takes no room
    said = "cannot read 'bids.csv': it has 1,073,741,825 bytes; the limit is 1,073,741,824"
    assert one_line(InputError, lambda: read_bids("bids.csv")) == said
    text = '[recruitment]\nmechanism = { kind = "max_min_fair", budget = 1.0 }\n'
    text += 'bids = { kind = "csv", path = "bids.csv" }\n'
    experiment = Experiment.from_toml(LEAST_INLINE.replace("[[tasks]]", f"{text}[[tasks]]"))
    assert one_line(InputError, experiment.files) == f"recruitment.bids: {said}"


def test_a_pipe_is_read_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(files, "TABLE", 1000)
    monkeypatch.setattr(files, "_BLOCK", 100)
    rows = "".join(f"{client},1,2\n" for client in range(500))
    os.mkfifo("bids.csv")

    def write() -> None:
        with pytest.raises(BrokenPipeError), open("bids.csv", "w", buffering=1) as pipe:
            pipe.writelines([HEAD, *([rows] * 100)])

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    said = "cannot read 'bids.csv': it has more than 1,000 bytes"
    assert one_line(InputError, lambda: read_bids("bids.csv")) == said
    writer.join(60)


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(files, "_BLOCK", 10)
    monkeypatch.setattr(files, "_LINE", 50)
    assert read_bids_of(f"{HEAD}anna,1,2\nbert,1,{'2' * 40}\n") == (2, 2)
    assert refuse("\0" * 100) == "bids.csv, line 1: has more than 50 bytes"
    long = "1" * 100
    assert refuse(f"{HEAD}x,1,2\n\ny,1,{long}\n") == "bids.csv, line 4: has more than 50 bytes"
    said = "bids.csv, line 3: has more than 50 bytes, or a quote in it has no end"
    more = "z,1,2\n" * 20
    assert refuse(f'{HEAD}x,1,2\n"y,1,2\n{more}') == said


def read_bids_of(content: str) -> tuple[int, ...]:
    Path("bids.csv").write_text(content)
    return read_bids("bids.csv").shape
