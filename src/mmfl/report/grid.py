"""Tables for a terminal of any width, drawn by rich; and tables for Markdown.

A `Grid` shows every number whole. Where its columns do not fit side by side:

1. Names and titles are broken into lines, only where they must be.
2. Columns that still do not fit move to further tables below, which repeat the names.
3. A column that is wider than the terminal itself is folded.

Names are shown as they are: they are never markup, and control characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mmfl.errors import printable
from mmfl.report.words import break_name

__all__ = ["Cell", "Column", "Grid", "make_text", "markdown_table"]

Side = Literal["left", "right"]

_GAP = 2  # blanks between two columns
_NAMES = range(26, 7, -1)  # how long lines of names may be, where room is scarce
_TITLE = 10  # titles are not broken into shorter lines


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and whether it stands out."""

    text: str
    bold: bool = False

    def markdown(self) -> str:
        """In bold."""
        return f"**{self.text}**" if self.bold else self.text

    def escape(self, *, stars: bool) -> Cell:
        """With control characters escaped, and with a star where there is no bold."""
        return replace(self, text="*" * (stars and self.bold) + printable(self.text))


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: May have several lines.
        cells: From top to bottom.
        side: Words are aligned on the left, numbers on the right.
    """

    title: str
    cells: Sequence[Cell]
    side: Side = "right"

    @classmethod
    def of(cls, title: str, texts: Iterable[str], side: Side = "right") -> Column:
        """A column in which nothing stands out."""
        return cls(title, [Cell(text) for text in texts], side)

    @property
    def width(self) -> int:
        """Of its longest line, on a terminal."""
        return max(_width(self.title), self.cells_width)

    @property
    def cells_width(self) -> int:
        """Of the longest line below the title."""
        return max((_width(cell.text) for cell in self.cells), default=0)

    def escape(self, *, stars: bool) -> Column:
        """With control characters escaped, and with stars where there is no bold."""
        title = "\n".join(map(printable, self.title.split("\n")))
        return replace(self, title=title, cells=[cell.escape(stars=stars) for cell in self.cells])

    def break_title(self, width: int) -> Column:
        """With a title in lines of this width, or of its cells' if they are wider."""
        return replace(self, title=_break(self.title, max(width, self.cells_width)))

    def break_names(self, width: int) -> Column:
        """With all texts in lines of this width."""
        cells = [replace(cell, text=_break(cell.text, width)) for cell in self.cells]
        return replace(self, title=_break(self.title, width), cells=cells)


class Grid:
    """A table that rich prints: ``console.print(Grid(columns))``.

    Args:
        columns: At least one column of names, then at least one other.
        repeat: How many columns have names: every part of a table that does not fit has them.
    """

    def __init__(self, columns: Sequence[Column], repeat: int = 1) -> None:
        self._columns = tuple(columns)
        self._repeat = repeat

    @classmethod
    def of(cls, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Grid:
        """A column of names, and columns of numbers."""
        cells = list(zip(*rows, strict=True)) or [()] * len(titles)
        first, *others = map(Column.of, titles, cells)
        return cls([replace(first, side="left"), *others])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tables = self.tables(options.max_width, stars=console.color_system is None)
        for number, table in enumerate(tables):
            yield from ([""] if number else [])
            for line in console.render_lines(table, options, pad=False):
                yield from _strip(line)
                yield Segment.line()

    def tables(self, width: int, *, stars: bool = False) -> list[Table]:
        """The tables that it takes: one, if all columns fit into `width`."""
        columns = [column.escape(stars=stars) for column in self._columns]
        names, numbers = columns[: self._repeat], columns[self._repeat :]
        if _total(columns) > width:
            broken_names = [name.break_names(_NAMES[0]) for name in names]
            numbers = _break_titles(numbers, width - _total(broken_names) - _GAP)
            names = _break_names(names, width - max(number.width for number in numbers) - _GAP)
        blocks = _split(numbers, width - _total(names) - _GAP)
        return [_draw([*names, *block], width) for block in blocks]


def _strip(line: list[Segment]) -> list[Segment]:
    """A line without blanks at its end."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else []


def make_text(line: str, style: str = "") -> Text:
    """A line as rich prints it: never markup, and control characters are escaped."""
    return Text(printable(line), style=style)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are words, and the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def _width(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _break(text: str, width: int) -> str:
    """A text in lines of this width, each as far to the right as the first."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    lines = text.split("\n")
    return "\n".join(
        line
        if cell_len(line) <= width
        else indent + break_name(line, max(width - len(indent), 1)).replace("\n", f"\n{indent}")
        for line in lines
    )


def _break_titles(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns with titles broken until they fit, if that can be."""
    narrowed = list(columns)
    for most in range(max(column.width for column in columns), _TITLE - 1, -1):
        if _total(narrowed) <= room:
            break
        narrowed = [column.break_title(most) for column in columns]
    return narrowed


def _break_names(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns with names broken until they fit, if that can be."""
    for most in _NAMES:
        narrowed = [column.break_names(most) for column in columns]
        if _total(narrowed) <= room:
            break
    return narrowed


def _split(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Columns in as few blocks as possible, each of which fits."""
    blocks: list[list[Column]] = [[]]
    for column in columns:
        if blocks[-1] and _total([*blocks[-1], column]) > room:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def _draw(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, _GAP))
    cells = []
    taken = 0
    for column in columns:
        own = max(1, min(column.width, width - taken))
        taken += own + _GAP
        title = _align(column.title, own, column.side)
        table.add_column(Text(title), vertical="bottom", overflow="fold", width=own)
        cells.append([_draw_cell(cell, own, column.side) for cell in column.cells])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _draw_cell(cell: Cell, width: int, side: Side) -> Text:
    return Text(_align(cell.text, width, side), style="bold" if cell.bold else "")


def _align(text: str, width: int, side: Side) -> str:
    """A text on its side; rich's own alignment would drop blanks that stand for a mark."""
    if side == "left":
        return text
    return "\n".join(" " * (width - cell_len(line)) + line for line in text.split("\n"))
