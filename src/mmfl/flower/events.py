"""What a ServerApp says while it runs: JSON lines in a file, which another process follows.

A ServerApp has no terminal. Without a file, it prints, and Flower keeps that as the run's log.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmfl.allocate import Assignments
from mmfl.exchange import Address, ClientFailure
from mmfl.loop import RoundRecord

__all__ = ["EventWriter", "Told", "follow_events", "read_round"]

_OFTEN = 0.1
"""Seconds between two looks at the file."""


class Told(NamedTuple):
    """An event ("process", "start", "round", "warning", "error", "end") and what belongs to it."""

    kind: str
    values: dict[str, Any]


class EventWriter:
    """Writes events; prints them if there is no file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None

    def tell(self, kind: str, **values: Any) -> None:
        """Write one event."""
        line = json.dumps({"kind": kind, **values})
        if self._path is None:
            print(line, flush=True)  # noqa: T201
            return
        with self._path.open("a") as file:
            file.write(line + "\n")

    def tell_round(self, record: RoundRecord) -> None:
        """Write what a view shows of a round."""
        self.tell(
            "round",
            round=record.round,
            active=record.active,
            clients=dict(record.clients),
            samples=record.samples,
            difficulty=dict(record.difficulty),
            metric=dict(record.metric),
            loss=dict(record.loss),
            seconds=record.seconds,
            failures=[
                [f.address.task, f.address.client, f.reason, f.detail, f.turn]
                for f in record.failures
            ],
        )

    def show_warning(self, message: Any, *rest: Any, **more: Any) -> None:
        """Write a warning: takes the place of `warnings.showwarning`."""
        self.tell("warning", said=" ".join(str(message).split()))


def read_round(values: dict[str, Any]) -> RoundRecord:
    """A round, with what a view shows of it."""
    nothing = np.empty(0, np.int64)
    return RoundRecord(
        round=values["round"],
        tasks=tuple(values["clients"]),
        active=values["active"],
        assignments=Assignments(nothing, nothing, np.empty(0)),
        clients=values["clients"],
        samples=values["samples"],
        failures=tuple(
            ClientFailure(Address("", values["round"], task, client, 0), reason, detail, turn=turn)
            for task, client, reason, detail, turn in values["failures"]
        ),
        difficulty=values["difficulty"],
        metric=values["metric"],
        loss=values["loss"],
        fresh=True,
        seconds=values["seconds"],
        seconds_train=math.nan,
        seconds_evaluate=math.nan,
    )


def follow_events(path: Path, check: Callable[[], None]) -> Iterator[Told]:
    """Events as they are written.

    Args:
        path: The file, which may not exist yet.
        check: Called between two looks; raises to end.
    """
    place, rest = 0, ""
    while True:
        if path.exists():
            with path.open() as file:
                file.seek(place)
                rest += file.read()
                place = file.tell()
        *lines, rest = rest.split("\n")
        for line in lines:
            values = json.loads(line)
            yield Told(values.pop("kind"), values)
        check()
        if not lines:
            time.sleep(_OFTEN)
