"""Shows the runs and comparisons in a folder, one line each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from mmfl.errors import plural, printable
from mmfl.report import Column, Grid, number
from mmfl.runs import STATES, order_variants, place_of
from mmfl.system import calls
from mmfl.system.memory import size

if TYPE_CHECKING:
    from mmfl.runs import Catalog, Overview

__all__ = ["count_runs", "draw_sparkline", "format_age", "listing_table", "remarks_on"]

_WIDE = 12
"""How many characters a small curve has at most."""

_LEVELS = "▁▂▃▄▅▆▇█"
_NAMED = 8
"""How many folders without runs are named."""


@dataclass(frozen=True)
class _Line:
    """One or several runs in a line of the table."""

    name: str
    runs: Sequence[Overview]
    measured: bool = True

    def cells(self, now: float) -> tuple[str, ...]:
        """The texts of its cells."""
        runs = self.runs
        rounds, planned = (sum(getattr(r, key) for r in runs) for key in ("rounds", "planned"))
        started = min(_start(run) for run in runs)
        shown = self.measured and [run for run in runs if run.state != "damaged"]
        worst, mean = (
            _mean([getattr(run, key) for run in shown or ()]) for key in ("worst", "mean")
        )
        return (
            self.name,
            _count_states(runs),
            f"{rounds}/{planned or '?'}",
            number(worst, 3) if self.measured else "",
            number(mean, 3) if self.measured else "",
            draw_sparkline(_average([run.history for run in shown or ()])),
            format_age(now - started),
            size(sum(run.bytes for run in runs)),
        )


def listing_table(
    catalog: Catalog, runs: Sequence[Overview], width: int, *, every: bool = False
) -> Grid | Text:
    """A line for each run; those of a comparison are a line for each variant, unless `every`.

    Args:
        catalog: Where the runs are.
        runs: The runs.
        width: The most columns that a line may have; lines that fit are plain text, which rich
            prints ten times as fast as a table.
        every: Whether the runs of a comparison have lines of their own.
    """
    now = calls.now()
    titles = ("run", "state", "rounds", "worst", "mean", "worst task", "age", "size")
    cells = zip(*(line.cells(now) for line in _lines(catalog.folder, runs, every)), strict=True)
    words = ("run", "state", "worst task")
    columns = [
        Column.of(title, texts, "left" if title in words else "right").escape(stars=False)
        for title, texts in zip(titles, cells, strict=True)
    ]
    widths = [column.width for column in columns]
    if sum(widths) + 2 * len(widths) - 2 > width:
        return Grid(columns)
    rows = [titles, *zip(*([cell.text for cell in one.cells] for one in columns), strict=True)]
    sides = [column.side for column in columns]
    lines = ("  ".join(map(_pad, row, widths, sides)).rstrip() for row in rows)
    return Text("\n".join(lines), no_wrap=True)


def _pad(text: str, width: int, side: str) -> str:
    """A text in as many cells of a terminal."""
    blanks = " " * (width - cell_len(text))
    return text + blanks if side == "left" else blanks + text


def remarks_on(catalog: Catalog, runs: Sequence[Overview]) -> Iterator[str]:
    """Lines below the table: what is wrong with which run, and which folders hold none."""
    for run in runs:
        if run.damage:
            yield printable(f"{run.folder}: damaged: {run.damage}")
    for folders, said in ((catalog.others, "no run in"), (catalog.unread, "not read:")):
        if folders:
            names = ", ".join(path.name for path in folders[:_NAMED])
            more = f" and {len(folders) - _NAMED} more" if len(folders) > _NAMED else ""
            yield printable(f"{said} {names}{more}")


def count_runs(runs: Sequence[Overview]) -> str:
    """How many runs there are, by state, and how many of their rounds are done."""
    rounds, planned = (sum(getattr(run, key) for run in runs) for key in ("rounds", "planned"))
    return f"{plural(len(runs), 'run')}, {_count_states(runs)}, {rounds:,} of {planned:,} rounds"


def _lines(folder: Path, runs: Sequence[Overview], every: bool) -> Iterator[_Line]:
    """The table's lines; runs of a comparison inside the folder are put together."""
    by_comparison: dict[Path, list[Overview]] = {}
    for run in runs:
        place = place_of(run.folder)
        inside = place is not None and place.folder != folder and folder in place.folder.parents
        where = place.folder if place is not None and inside and not every else run.folder
        by_comparison.setdefault(where, []).append(run)
    for where, found in by_comparison.items():
        if found[0].folder == where:
            yield _Line(_name(where, folder), found)
        else:
            yield from _compared(where, found, folder)


def _compared(where: Path, runs: Sequence[Overview], folder: Path) -> Iterator[_Line]:
    """A line for a comparison, and one for each of its variants."""
    by_variant: dict[str, list[Overview]] = {}
    for run in runs:
        by_variant.setdefault(run.folder.parent.name, []).append(run)
    yield _Line(f"{_name(where, folder)}/", runs, measured=False)
    for slug, name in order_variants(where, by_variant).items():
        of_variant = by_variant[slug]
        seeds = f" ({plural(len(of_variant), 'seed')})"
        yield _Line(f"  {name}{seeds}", of_variant)


def _name(path: Path, folder: Path) -> str:
    return str(path if path == folder else path.relative_to(folder))


def _count_states(runs: Sequence[Overview]) -> str:
    if len(runs) == 1:
        return runs[0].state
    counts = Counter(run.state for run in runs)
    if len(counts) == 1:
        return runs[0].state
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def _start(run: Overview) -> float:
    """When a run was started, in seconds since 1970."""
    try:
        return datetime.fromisoformat(run.started).timestamp()
    except (ValueError, OverflowError, OSError):
        return run.changed


def _mean(values: Iterable[float | None]) -> float:
    known = [math.nan if value is None else value for value in values]
    return fmean(known) if known else math.nan


def _average(histories: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean of several curves; one that is shorter keeps its last value."""
    longest = max(map(len, histories), default=0)
    held = [[*one, *[one[-1]] * (longest - len(one))] for one in histories if one]
    means = [_mean(values) for values in zip(*held, strict=True)]
    return [None if math.isnan(value) else value for value in means]


def draw_sparkline(values: Sequence[float | None], wide: int = _WIDE) -> str:
    """A curve in a few characters, from its lowest to its highest value.

    >>> draw_sparkline([0.1, 0.2, 0.4, 0.8])
    '▁▂▄█'
    """
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    count = min(len(values), wide)
    last = len(values) - 1
    picked = [values[round(place * last / max(count - 1, 1))] for place in range(count)]
    top = len(_LEVELS) - 1
    return "".join(
        " "
        if value is None
        else _LEVELS[round((value - low) / (high - low) * top) if high > low else 0]
        for value in picked
    )


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
