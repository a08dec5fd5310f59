"""Shows the runs and comparisons in a folder, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from mmfl.errors import plural, printable
from mmfl.report import Column, Grid, number
from mmfl.runs import count_states, format_age, list_lines
from mmfl.system import calls
from mmfl.system.memory import size

if TYPE_CHECKING:
    from mmfl.runs import Catalog, Line, Overview

__all__ = ["draw_sparkline", "listing_table", "remarks_on"]

_WIDE = 12
"""How many characters a small curve has at most."""

_LEVELS = "▁▂▃▄▅▆▇█"
_NAMED = 8
"""How many folders without runs are named."""


def _cells(line: Line, now: float) -> tuple[str, ...]:
    """The texts of a line's cells."""
    measured = line.kind != "comparison"
    return (
        _title(line),
        count_states(line.runs),
        f"{line.rounds}/{line.planned or '?'}",
        number(line.worst, 3) if measured else "",
        number(line.mean, 3) if measured else "",
        draw_sparkline(line.history),
        format_age(now - line.started),
        size(line.bytes),
    )


def _title(line: Line) -> str:
    if line.kind == "variant":
        return f"  {line.name} ({plural(len(line.runs), 'seed')})"
    return f"{line.name}/" if line.kind == "comparison" else line.name


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
    cells = zip(
        *(_cells(line, now) for line in list_lines(catalog.folder, runs, every=every)), strict=True
    )
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
