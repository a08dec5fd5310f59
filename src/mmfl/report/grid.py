"""Cells in columns: for a terminal of any width, and for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from mmfl.report.words import broken

__all__ = ["GAP", "LABEL", "Cell", "grid", "markdown_table"]

GAP = 2
"""Blanks between two columns."""

LABEL = 26
"""The most letters in a line of a row's name."""


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and whether it stands out."""

    text: str
    bold: bool = False

    def rich(self, *, plain: bool) -> Text:
        """In bold, or with a star where there is no bold."""
        if plain:
            return Text("*" * self.bold + self.text)
        return Text(self.text, style="bold" if self.bold else "")

    def markdown(self) -> str:
        """In bold."""
        return f"**{self.text}**" if self.bold else self.text


def grid(
    labels: Sequence[str],
    titles: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    *,
    plain: bool,
) -> list[Table]:
    """A table of cells, cut into several with fewer columns each where `width` asks for it."""
    sides = [broken(label, LABEL) for label in labels]
    side = max(len(line) for label in sides for line in label.split("\n"))
    cells = [[cell.rich(plain=plain) for cell in row] for row in rows]
    needed = [max(len(row[at]) for row in cells) for at in range(len(titles))]
    room = width - side
    # Titles are broken into lines only as far as they must be.
    for most in range(max(map(len, titles)), 0, -1):
        heads = [broken(title, max(most, need)) for title, need in zip(titles, needed, strict=True)]
        widths = [
            max(need, *map(len, head.split("\n"))) for need, head in zip(needed, heads, strict=True)
        ]
        if sum(widths) + GAP * len(widths) <= room:
            break
    blocks: list[list[int]] = [[]]
    for at, own in enumerate(widths):
        taken = sum(widths[other] + GAP for other in blocks[-1])
        if blocks[-1] and taken + GAP + own > room:
            blocks.append([])
        blocks[-1].append(at)
    tables = []
    for block in blocks:
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, GAP))
        table.add_column("", no_wrap=True)
        for at in block:
            table.add_column(
                Text(heads[at]),
                justify="right",
                vertical="bottom",
                no_wrap=True,
                min_width=needed[at],
            )
        for label, row in zip(sides, cells, strict=True):
            table.add_row(Text(label), *(row[at] for at in block))
        tables.append(table)
    return tables


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are words, and the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))
