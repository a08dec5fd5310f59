"""Variants side by side: for a terminal, for Markdown, and as plain data for JSON.

Two tables: the results (mean and standard deviation over seeds), and the differences to the first
variant, seed by seed. Print them with rich (``console.print(Results(variants))``): on a terminal
they take the layout that fits its width, so that no number is ever wrapped or cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from mmfl.errors import InputError
from mmfl.report.statistics import (
    OVERALL,
    Paired,
    Quantity,
    Spread,
    Variant,
    of_task,
    paired,
    rounds_to,
    same_tasks,
    spread,
)
from mmfl.report.words import broken, escaped, number

__all__ = ["Differences", "Results", "data", "quantities"]

_MANY_TASKS = 6
_GAP = 2
_LABEL = 26


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


class Results:
    """A table of results: tasks, worst, mean, variance, Jain's index, and rounds to a target.

    Args:
        variants: The rows; if there are many tasks or little room, the columns.
        target: If given, also how many rounds the worst task took to this merit.
    """

    def __init__(self, variants: Sequence[Variant], target: float | None = None) -> None:
        same_tasks(variants)
        self._variants = tuple(variants)
        self._quantities = quantities(variants[0], target)
        columns = [_column(variants, quantity) for quantity in self._quantities]
        self._rows = [list(row) for row in zip(*columns, strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = console.color_system is None
        names = [variant.name for variant in self._variants]
        labels = [_label(quantity) for quantity in self._quantities]
        wide = _grid(names, labels, self._rows, options.max_width, plain=plain)
        if len(self._variants[0].tasks) <= _MANY_TASKS and len(wide) == 1:
            yield wide[0]
        else:
            turned = [list(row) for row in zip(*self._rows, strict=True)]
            tables = _grid(labels, names, turned, options.max_width, plain=plain)
            for place, table in enumerate(tables):
                yield from ([""] if place else [])
                yield table
        yield Text(self._note("*" if plain else "Bold"), style="dim")

    def markdown(self) -> str:
        """As a table of GitHub's Markdown, and a line that explains it."""
        names = [escaped(variant.name) for variant in self._variants]
        labels = [escaped(_label(quantity)) for quantity in self._quantities]
        rows = [[cell.markdown() for cell in row] for row in self._rows]
        if len(self._variants[0].tasks) <= _MANY_TASKS:
            lines = [[name, *row] for name, row in zip(names, rows, strict=True)]
            table = _markdown(["", *labels], lines)
        else:
            turned = zip(labels, *rows, strict=True)
            table = _markdown(["", *names], [list(row) for row in turned])
        return f"{table}\n{self._note('Bold')}\n"

    def _note(self, mark: str) -> str:
        counts = sorted({len(variant.seeds) for variant in self._variants})
        cells = [cell for row in self._rows for cell in row]
        if counts == [1]:
            note = "After the last round, on the test split; one seed."
        else:
            seeds = " to ".join(str(count) for count in {counts[0]: 0, counts[-1]: 0})
            note = "After the last round, on the test split: mean ± standard deviation over "
            note += f"{seeds} seeds."
        if any(cell.bold for cell in cells):
            note += f" {mark}: best."
        if any(quantity.better == "lower" for quantity in self._quantities):
            note += " ↓: lower is better."
        for few in [cell.text.split()[-1] for cell in cells if "/" in cell.text][:1]:
            note += f" {few}: in {few.replace('/', ' of ')} seeds only."
        return note


class Differences:
    """A table of differences to the first variant, over the seeds that both have.

    Args:
        variants: At least two.
        quantities: What to compare; by default worst, mean, variance and Jain's index.
    """

    def __init__(
        self, variants: Sequence[Variant], quantities: Sequence[Quantity] = OVERALL
    ) -> None:
        same_tasks(variants)
        if len(variants) < 2:
            raise InputError(f"differences need a second variant, got only {variants[0].name!r}")
        self._first = variants[0]
        self._others = [
            (other.name, [paired(self._first, other, quantity) for quantity in quantities])
            for other in variants[1:]
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = console.color_system is None
        last = broken(f"{self._first.name} better in", 14)
        titles: list[tuple[str, Literal["left", "right"]]]
        titles = [("", "left"), ("difference", "right"), ("95% interval", "right"), (last, "left")]
        rows = [
            [
                [
                    Text(_label(one.quantity)),
                    Cell(_signed(one.mean, one), _clear(one)).rich(plain=plain),
                    Text(_interval(one)),
                    Text(_seeds(one)),
                ]
                for one in found
            ]
            for _, found in self._others
        ]
        widths = [
            max(*map(len, title.split("\n")), *(len(row[at]) for block in rows for row in block))
            for at, (title, _) in enumerate(titles)
        ]
        room = options.max_width - sum(widths) - _GAP * len(widths)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        table.add_column("", no_wrap=True)
        for (title, side), width in zip(titles, widths, strict=True):
            table.add_column(Text(title, justify=side), justify=side, no_wrap=True, min_width=width)
        for (name, _), block in zip(self._others, rows, strict=True):
            lines = broken(name, max(10, min(room, _LABEL))).split("\n")
            for line, row in zip_longest(lines, block, fillvalue=None):
                table.add_row(Text(line or ""), *(row or []))
        yield table
        yield Text(self._note("*" if plain else "Bold"), style="dim")

    def markdown(self) -> str:
        """As a table of GitHub's Markdown, and a line that explains it."""
        first = escaped(self._first.name)
        head = ["", "", "difference", "95% interval", f"{first} better in"]
        rows = [
            [
                escaped(name),
                escaped(_label(one.quantity)),
                Cell(_signed(one.mean, one), _clear(one)).markdown(),
                _interval(one),
                _seeds(one),
            ]
            for name, found in self._others
            for one in found
        ]
        return f"{_markdown(head, rows, left=2)}\n{escaped(self._note('Bold'))}\n"

    def _note(self, mark: str) -> str:
        note = f"Each minus {self._first.name} with the same seed; mean over seeds, Student's t."
        if any(_clear(one) for _, found in self._others for one in found):
            note += f" {mark}: the interval leaves out 0."
        if any(len({len(one.seeds) for one in found}) > 1 for _, found in self._others):
            note += " Where fewer seeds are counted, the others have no such number."
        return note + " ↓: lower is better." * any(
            one.quantity.better == "lower" for _, found in self._others for one in found
        )


def data(variants: Sequence[Variant], target: float | None = None) -> dict[str, Any]:
    """Everything in both tables, by seed too, as JSON has it: what is unknown is None."""
    same_tasks(variants)
    first = variants[0]
    tasks = [of_task(first, name) for name in first.tasks]
    goal = None if target is None else rounds_to(target)
    return {
        "tasks": [{"name": q.label, "better": q.better} for q in tasks],
        "target": target,
        "variants": [
            {
                "name": variant.name,
                "seeds": list(variant.seeds),
                "rounds": [run.rounds for run in variant.runs.values()],
                "turns": {
                    name: sum(int(run.turns[column]) for run in variant.runs.values())
                    for column, name in enumerate(variant.tasks)
                },
                "tasks": {quantity.label: _plain(variant, quantity) for quantity in tasks},
                **{quantity.label.lower(): _plain(variant, quantity) for quantity in OVERALL},
                "rounds_to_target": None if goal is None else _plain(variant, goal),
            }
            for variant in variants
        ],
        "differences": [
            {
                "variant": other.name,
                "to": first.name,
                "tasks": {q.label: _plain_pair(paired(first, other, q)) for q in tasks},
                **{q.label.lower(): _plain_pair(paired(first, other, q)) for q in OVERALL},
                "rounds_to_target": None
                if goal is None
                else _plain_pair(paired(first, other, goal)),
            }
            for other in variants[1:]
        ],
    }


def quantities(variant: Variant, target: float | None = None) -> list[Quantity]:
    """What a table of results has: the tasks, all of them together, rounds to a target."""
    tasks = [of_task(variant, name) for name in variant.tasks]
    return [*tasks, *OVERALL, *([] if target is None else [rounds_to(target)])]


def _label(quantity: Quantity) -> str:
    return quantity.label + " ↓" * (quantity.better == "lower")


def _column(variants: Sequence[Variant], quantity: Quantity) -> list[Cell]:
    """One quantity of all variants; those stand out that look best, unless all look the same."""
    found = [spread(variant.values(quantity).values()) for variant in variants]
    counts = [len(variant.seeds) for variant in variants]
    sign = 1 if quantity.better == "higher" else -1
    ranks = [
        (one.n / count, sign * round(one.mean, quantity.decimals)) if one.n else (0.0, 0.0)
        for one, count in zip(found, counts, strict=True)
    ]
    best = max(ranks)
    return [
        Cell(_spread(one, count, quantity), rank == best and min(ranks) < best)
        for one, count, rank in zip(found, counts, ranks, strict=True)
    ]


def _spread(found: Spread, seeds: int, quantity: Quantity) -> str:
    if not found.n:
        return "never" if quantity.counts_rounds else "-"
    text = number(found.mean, quantity.decimals)
    if not math.isnan(found.sd):
        text += f" ±{number(found.sd, quantity.decimals)}"
    return text if found.n == seeds else f"{text} {found.n}/{seeds}"


def _signed(value: float, pair: Paired) -> str:
    return number(value, pair.quantity.decimals, sign=True)


def _interval(pair: Paired) -> str:
    if pair.interval is None:
        return "-"
    low, high = (_signed(end, pair) for end in pair.interval)
    return f"[{low}, {high}]"


def _seeds(pair: Paired) -> str:
    n = len(pair.seeds)
    return f"{pair.first_better} of {n} seed{'s' * (n != 1)}"


def _clear(pair: Paired) -> bool:
    return pair.interval is not None and not pair.interval[0] <= 0 <= pair.interval[1]


def _grid(
    labels: Sequence[str],
    titles: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    *,
    plain: bool,
) -> list[Table]:
    """A table of cells, cut into several with fewer columns each where `width` asks for it."""
    sides = [broken(label, _LABEL) for label in labels]
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
        if sum(widths) + _GAP * len(widths) <= room:
            break
    blocks: list[list[int]] = [[]]
    for at, own in enumerate(widths):
        taken = sum(widths[other] + _GAP for other in blocks[-1])
        if blocks[-1] and taken + _GAP + own > room:
            blocks.append([])
        blocks[-1].append(at)
    tables = []
    for block in blocks:
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, _GAP))
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


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are words, and the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def _plain(variant: Variant, quantity: Quantity) -> dict[str, Any]:
    values = variant.values(quantity)
    found = spread(values.values())
    return {
        "mean": _known(found.mean),
        "sd": _known(found.sd),
        "n": found.n,
        "values": [_known(value) for value in values.values()],
    }


def _plain_pair(pair: Paired) -> dict[str, Any]:
    return {
        "mean": _known(pair.mean),
        "interval": pair.interval and [_known(end) for end in pair.interval],
        "seeds": list(pair.seeds),
        "differences": [_known(difference) for difference in pair.differences],
        "first_better": pair.first_better,
        "other_better": pair.other_better,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
