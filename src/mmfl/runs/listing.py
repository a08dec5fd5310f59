"""The lines of a list of runs: a run, a comparison, or one of a comparison's variants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Literal

from mmfl.errors import plural
from mmfl.runs.catalog import order_variants, place_of
from mmfl.runs.overview import STATES, Overview

__all__ = ["Line", "count_runs", "count_states", "format_age", "list_lines", "list_variants"]


@dataclass(frozen=True)
class Line:
    """One or several runs in a line of a list.

    Attributes:
        kind: What it stands for.
        folder: The run's, the comparison's or the variant's.
        name: The run's or comparison's path in the listed folder; the variant's name.
        runs: The runs.
    """

    kind: Literal["run", "comparison", "variant"]
    folder: Path
    name: str
    runs: Sequence[Overview]

    @property
    def rounds(self) -> int:
        """Rounds done by all runs."""
        return sum(run.rounds for run in self.runs)

    @property
    def planned(self) -> int:
        """Rounds planned for all runs."""
        return sum(run.planned for run in self.runs)

    @property
    def worst(self) -> float:
        """The worst task's merit, a mean over the runs; NaN if it is not known for all of them."""
        return _mean([run.worst for run in self._shown])

    @property
    def mean(self) -> float:
        """The tasks' mean merit, a mean over the runs; NaN if it is not known for all of them."""
        return _mean([run.mean for run in self._shown])

    @property
    def history(self) -> list[float | None]:
        """The worst task's merit by round, a mean; a run that is shorter keeps its last value."""
        histories = [run.history for run in self._shown]
        longest = max(map(len, histories), default=0)
        held = [[*one, *[one[-1]] * (longest - len(one))] for one in histories if one]
        means = [_mean(values) for values in zip(*held, strict=True)]
        return [None if math.isnan(value) else value for value in means]

    @property
    def started(self) -> float:
        """When the first run was started, in seconds since 1970."""
        return min(_start(run) for run in self.runs)

    @property
    def changed(self) -> float:
        """When a run last wrote something, in seconds since 1970."""
        return max(run.changed for run in self.runs)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(run.bytes for run in self.runs)

    @property
    def _shown(self) -> list[Overview]:
        """The runs whose results count; those of a comparison are not one quantity."""
        if self.kind == "comparison":
            return []
        return [run for run in self.runs if run.state != "damaged"]


def list_lines(folder: Path, runs: Sequence[Overview], *, every: bool = False) -> Iterator[Line]:
    """A line for each run; those of a comparison are a line, and one for each of its variants.

    Args:
        folder: Where the runs are; a comparison that is this folder itself is not put together.
        runs: The runs.
        every: Whether the runs of a comparison have lines of their own.
    """
    by_comparison: dict[Path, list[Overview]] = {}
    for run in runs:
        place = place_of(run.folder)
        inside = place is not None and place.folder != folder and folder in place.folder.parents
        where = place.folder if place is not None and inside and not every else run.folder
        by_comparison.setdefault(where, []).append(run)
    for where, members in by_comparison.items():
        if members[0].folder == where:
            yield Line("run", where, _name(where, folder), members)
        else:
            yield from _compared(where, members, folder)


def _compared(where: Path, runs: Sequence[Overview], folder: Path) -> Iterator[Line]:
    """A line for a comparison, and one for each of its variants."""
    yield Line("comparison", where, _name(where, folder), runs)
    yield from list_variants(where, runs)


def list_variants(comparison: Path, runs: Sequence[Overview]) -> Iterator[Line]:
    """A line for each variant of a comparison, in the comparison's order."""
    by_variant: dict[str, list[Overview]] = {}
    for run in runs:
        by_variant.setdefault(run.folder.parent.name, []).append(run)
    for slug, name in order_variants(comparison, by_variant).items():
        yield Line("variant", comparison / slug, name, by_variant[slug])


def _name(path: Path, folder: Path) -> str:
    return str(path if path == folder else path.relative_to(folder))


def count_states(runs: Sequence[Overview]) -> str:
    """The state of some runs in a few words: ``finished``, or ``2 running, 1 finished``."""
    counts = Counter(run.state for run in runs)
    if len(counts) == 1:
        return runs[0].state
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def count_runs(runs: Sequence[Overview]) -> str:
    """How many runs there are, by state, and how many of their rounds are done."""
    rounds, planned = (sum(getattr(run, key) for run in runs) for key in ("rounds", "planned"))
    return f"{plural(len(runs), 'run')}, {count_states(runs)}, {rounds:,} of {planned:,} rounds"


def _start(run: Overview) -> float:
    """When a run was started, in seconds since 1970."""
    try:
        return datetime.fromisoformat(run.started).timestamp()
    except (ValueError, OverflowError, OSError):
        return run.changed


def _mean(values: Iterable[float | None]) -> float:
    known = [math.nan if value is None else value for value in values]
    return fmean(known) if known else math.nan


def format_age(seconds: float) -> str:
    """How long ago something was.

    >>> format_age(5), format_age(300), format_age(86400 * 3)
    ('5 s', '5 min', '3 d')
    """
    seconds = max(seconds, 0.0)
    for unit, length, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < length * most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
