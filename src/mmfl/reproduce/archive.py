"""Curves of finished runs in one JSON file per study: small enough to commit, enough to redraw.

    {"study": ..., "scale": ..., "runs": {setting: {variant: {seed: {...}}}}}

A run has its tasks, the metric and the number of clients of each task after each round, its
fingerprint, the minutes it took, and when and on what it was made. Some runs also have `seconds`,
the virtual duration of each round; `targets`, by task; and `map`, for each client a letter per
round: the task that it trained ("a" is the first), or "." if none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.config import Finite, Natural, NonNegative, Text, component, parse, read_text_file, short
from mmfl.errors import MmflError, StoreError
from mmfl.report import Curves, Variant
from mmfl.runs import Run, RunStore, unpack_assignments
from mmfl.system.files import exists, write_file

__all__ = ["Archive", "ArchivedRun"]

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = 6  # of a metric


@component
class _StoredRun:
    """A run in a file."""

    fingerprint: str
    minutes: NonNegative
    made: Text
    tasks: tuple[Text, ...]
    better: tuple[Text, ...]
    metric: tuple[tuple[float, ...], ...]
    clients: tuple[tuple[Natural, ...], ...]
    seconds: tuple[NonNegative, ...] | None = None
    targets: dict[str, Finite] = field(default_factory=dict)
    map: tuple[str, ...] = ()
    kinds: tuple[Text, ...] = ()


@dataclass(frozen=True)
class ArchivedRun:
    """What is kept of a run.

    Attributes:
        curves: Metrics and clients, round by round.
        fingerprint: Of the run.
        minutes: That its rounds took.
        made: When and on what, such as "2026-11-18, 2 cores of an AMD EPYC".
        map: A row of letters per client, or nothing.
    """

    curves: Curves
    fingerprint: str
    minutes: float
    made: str
    map: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path, *, with_map: bool = False) -> ArchivedRun:
        """Of a finished run's directory."""
        run = Run.load(folder)
        with closing(RunStore.open(folder)) as store:
            at = store.environment()
            tasks = {number: column for column, (number, *_) in enumerate(store.tasks())}
            rows = store.rows("SELECT assignment FROM round ORDER BY round") if with_map else []
        made = f"{at['started'][:10]}, {at['cores']} cores of {at['processor']}"
        minutes = round(run.seconds / 60, 2)
        letters = _draw_map([unpack_assignments(blob) for (blob,) in rows], tasks)
        return cls(Curves.load(folder), run.fingerprint, minutes, made, letters)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        table: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "minutes": self.minutes,
            "made": self.made,
            "tasks": self.curves.tasks,
            "better": self.curves.better,
            "metric": [[round(v, _DIGITS) for v in row] for row in self.curves.metric.T.tolist()],
            "clients": self.curves.clients.T.tolist(),
        }
        if self.curves.virtual is not None:
            table["seconds"] = [round(value, _DIGITS) for value in self.curves.virtual.tolist()]
        if self.curves.targets:
            table["targets"] = dict(self.curves.targets)
        if "lower" in self.curves.better:  # then merits depend on the kinds of metrics
            table["kinds"] = self.curves.kinds
        return table | ({"map": self.map} if self.map else {})

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> ArchivedRun:
        """The inverse of `to_json`; `ConfigError` or `ValueError` if it is none."""
        row = parse(_StoredRun, table)
        metric, clients = np.array(row.metric, np.float64).T, np.array(row.clients, np.int64).T
        best = [math.inf if better == "higher" else -math.inf for better in row.better]
        if (metric == best).any():
            raise ValueError("metric must not be infinitely good")
        seconds = None if row.seconds is None else np.array(row.seconds, np.float64)
        curves = Curves(
            row.tasks,
            row.better,
            metric,
            clients,
            virtual=seconds,
            targets=row.targets,
            kinds=row.kinds,
        )
        if seconds is not None and len(seconds) != curves.rounds:
            raise ValueError(f"seconds must have {curves.rounds} numbers")
        if not all(re.fullmatch(r"[a-z.]+", line) for line in row.map) or not (
            {len(line) for line in row.map} <= {curves.rounds}
        ):
            raise ValueError(f"map must have {curves.rounds} letters or dots for each client")
        return cls(curves, row.fingerprint, row.minutes, row.made, row.map)


ArchivedRuns = dict[str, dict[str, dict[int, ArchivedRun]]]
"""By setting, variant and seed."""


@dataclass
class Archive:
    """All runs of a study at a scale."""

    study: str
    scale: str
    runs: ArchivedRuns = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, study: str, scale: str) -> Archive | None:
        """What a file holds, which must be of this study and scale; None if there is no file."""
        if not exists(path):
            return None
        try:
            table = json.loads(read_text_file(path))
            runs = {
                setting: {
                    variant: {int(seed): ArchivedRun.from_json(run) for seed, run in seeds.items()}
                    for variant, seeds in variants.items()
                }
                for setting, variants in table["runs"].items()
            }
            of = table["study"], table["scale"]
        except (*_UNREADABLE, MmflError) as error:
            raise StoreError(
                f"{str(path)!r} does not hold the curves of a study: {_say(error)}"
            ) from None
        if of != (study, scale):
            raise StoreError(
                f"{str(path)!r} must be of study {study!r} and scale {scale!r}, "
                f"got {short(of[0])} and {short(of[1])}"
            )
        return cls(study, scale, runs)

    def save(self, path: Path) -> None:
        """Write the file; settings, variants and seeds in order."""
        runs = {
            setting: {
                variant: {str(seed): seeds[seed].to_json() for seed in sorted(seeds)}
                for variant, seeds in variants.items()
            }
            for setting, variants in self.runs.items()
        }
        table = {"study": self.study, "scale": self.scale, "runs": runs}
        write_file(path, (_write_json(table) + "\n").encode())

    def add(self, setting: str, variant: str, seed: int, run: ArchivedRun) -> None:
        """Take in a run; one that is there is replaced."""
        self.runs.setdefault(setting, {}).setdefault(variant, {})[seed] = run

    def update(self, other: Archive) -> None:
        """Take in all runs of another archive."""
        for setting, variants in other.runs.items():
            for variant, seeds in variants.items():
                for seed, run in seeds.items():
                    self.add(setting, variant, seed, run)

    def variants(self) -> dict[str, dict[str, Variant]]:
        """By setting and variant, as reports take them."""
        return {
            setting: {
                name: Variant(name, {seed: run.curves for seed, run in seeds.items()})
                for name, seeds in variants.items()
                if seeds
            }
            for setting, variants in self.runs.items()
        }

    @property
    def minutes(self) -> float:
        """That all runs took together."""
        return sum(run.minutes for _, _, _, run in self)

    @property
    def made(self) -> list[str]:
        """When and on what the runs were made, each once."""
        return sorted({run.made for _, _, _, run in self})

    def __iter__(self) -> Iterator[tuple[str, str, int, ArchivedRun]]:
        """Setting, variant, seed and run."""
        return (
            (setting, variant, seed, run)
            for setting, variants in self.runs.items()
            for variant, seeds in variants.items()
            for seed, run in seeds.items()
        )


def _say(error: Exception) -> str:
    """What is wrong with a file."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _draw_map(rounds: list[Any], tasks: Mapping[int, int]) -> tuple[str, ...]:
    """A row of letters for each client that had a turn."""
    known = sorted({int(client) for one in rounds for client in one.clients})
    rows = {client: ["."] * len(rounds) for client in known}
    for t, one in enumerate(rounds):
        for client, task in zip(one.clients.tolist(), one.tasks.tolist(), strict=True):
            rows[client][t] = _LETTERS[tasks[task] % len(_LETTERS)]
    return tuple("".join(rows[client]) for client in known)


def _write_json(table: Any, depth: int = 0) -> str:
    """JSON with a line for each list, so that a change of one run is a change of few lines."""
    if not isinstance(table, dict):
        return json.dumps(table, separators=(",", ":"))
    inner = " " * (depth + 1)
    lines = [
        f"{inner}{json.dumps(str(key))}: {_write_json(value, depth + 1)}"
        for key, value in table.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
