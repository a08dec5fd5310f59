"""Runs the scenarios it is given; started by `power.recording` with the shim preloaded.

LD_PRELOAD=shim.so python recorded.py jobs.json
"""

from __future__ import annotations

import ctypes
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import torch

import mmfl
from mmfl.runs import stored_rounds
from mmfl.system import calls

TICK = 2.0**-10


def clock(wal: int | None) -> calls.Interceptor:
    """Replace the stopwatch by a counter, so that recordings are alike; keep SQLite's log short."""
    ticks = count()

    def intercept(
        name: str, real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        if name == "perf_counter":
            return next(ticks) * TICK
        result = real(*args, **named)
        if name == "connect" and wal is not None:
            result.execute(f"PRAGMA wal_autocheckpoint = {wal}")
        return result

    return intercept


def read(folder: Path) -> sqlite3.Connection:
    """A reader that is in the middle of reading the run's database."""
    database = sqlite3.connect(f"{(folder / 'run.sqlite').as_uri()}?mode=ro", uri=True)
    database.execute("BEGIN")
    database.execute("SELECT * FROM meta").fetchall()
    return database


def play(job: dict[str, Any], shim: ctypes.CDLL) -> None:
    """Run one scenario; each checkpoint that the run announces becomes a mark in the log."""
    folder = Path(job["root"]) / job["run"]

    def mark(text: str) -> None:
        shim.power_mark(text.encode())

    if shim.power_start(job["root"].encode(), job["log"].encode()):
        sys.exit(f"cannot record into {job['log']}")
    for part in job["parts"]:
        experiment = mmfl.Experiment.from_toml(part["toml"])
        mark("part")
        with ExitStack() as stack:
            rounds = stored_rounds(experiment, folder, resume=folder.exists())
            with rounds:
                rounds.start()
                if job["reader"]:
                    stack.enter_context(closing(read(folder)))
                saved = rounds.after
                for _, record in rounds:
                    if job["every"] and record.round - saved >= job["every"]:
                        saved = record.round
                        mark(f"saved {saved}")
                    if record.round == part["stop"]:
                        break
            if job["every"]:
                mark(f"saved {part['stop'] or experiment.rounds}")
            if part is job["parts"][-1]:
                mark("finished")
    shim.power_stop()


def main() -> None:
    torch.set_num_threads(1)
    shim = ctypes.CDLL(None)
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        with calls.intercept(clock(job["wal"])):
            play(job, shim)


if __name__ == "__main__":
    main()
