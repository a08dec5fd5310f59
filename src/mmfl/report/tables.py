"""Variants side by side: for a terminal, for Markdown, and as plain data for JSON.

Two tables: the results (mean and standard deviation over seeds), and the differences to the first
variant, seed by seed. Print them with rich (``console.print(Results(variants))``): on a terminal
they take the layout that fits its width, so that no number is ever wrapped or cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from mmfl.errors import InputError
from mmfl.report.grid import Cell, Column, Grid, make_text, markdown_table
from mmfl.report.remarks import WARNING_SIGN, Remark, as_data, count_turns, mark_name, remarks
from mmfl.report.statistics import (
    OVERALL,
    Paired,
    Quantity,
    Spread,
    Variant,
    compare_variants,
    of_task,
    refuse_other_tasks,
    rounds_to,
    select_comparable,
    spread,
)
from mmfl.report.words import escape_markdown, number

__all__ = ["Differences", "Results", "data", "quantities"]

_MANY_TASKS = 6


class Results:
    """A table of results: tasks, worst, mean, variance, Jain's index, and rounds to a target.

    If turns failed, there is a column for these, too.

    Args:
        variants: The rows; if there are many tasks or little room, the columns.
        target: If given, also how many rounds the worst task took to this merit.
        about: Remarks on the runs; by default those that they give cause for.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        target: float | None = None,
        about: Sequence[Remark] | None = None,
    ) -> None:
        refuse_other_tasks(variants)
        self._variants = tuple(variants)
        self._about = tuple(remarks(variants) if about is None else about)
        self._names = [mark_name(variant.name, self._about) for variant in variants]
        self._quantities = quantities(variants[0], target)
        serious = {remark.variant for remark in self._about if remark.serious}
        sound = [variant.name not in serious for variant in variants]
        columns = [_column(variants, quantity, sound) for quantity in self._quantities]
        self._labels = [_label(quantity) for quantity in self._quantities]
        counts = [count_turns(variant) for variant in variants]
        if any(failed for failed, _ in counts):
            columns.append([Cell(f"{failed:,} of {of:,}") for failed, of in counts])
            self._labels.append("failed turns")
        self._rows = [list(row) for row in zip(*columns, strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        stars = console.color_system is None
        by_variant = _grid(self._names, self._labels, self._rows)
        few_tasks = len(self._variants[0].tasks) <= _MANY_TASKS
        if few_tasks and len(by_variant.tables(options.max_width, stars=stars)) == 1:
            yield by_variant
        else:
            yield _grid(self._labels, self._names, list(zip(*self._rows, strict=True)))
        yield make_text(self._note("*" if stars else "Bold"), "dim")
        for remark in self._about:
            yield make_text(remark.line, "bold" if remark.serious else "dim")

    def markdown(self) -> str:
        """As a table of GitHub's Markdown, a line that explains it, and the remarks."""
        names = [escape_markdown(name) for name in self._names]
        labels = [escape_markdown(label) for label in self._labels]
        rows = [[cell.markdown() for cell in row] for row in self._rows]
        if len(self._variants[0].tasks) <= _MANY_TASKS:
            lines = [[name, *row] for name, row in zip(names, rows, strict=True)]
            table = markdown_table(["", *labels], lines)
        else:
            turned = zip(labels, *rows, strict=True)
            table = markdown_table(["", *names], [list(row) for row in turned])
        under = [f"\n{escape_markdown(self._note('Bold'))}\n", *(self._about and ["\n"])]
        under += [f"- {escape_markdown(remark.line)}\n" for remark in self._about]
        return "".join([table, *under])

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
        rule = self._variants[0].curves.merit_rule
        if rule:
            note += f" Over all tasks, {rule}."
        for few in [cell.text.split()[-1] for cell in cells if "/" in cell.text][:1]:
            note += f" {few}: in {few.replace('/', ' of ')} seeds only."
        return note + _steps(self._variants, self._quantities)


class Differences:
    """A table of differences to the first variant, over the seeds that both have.

    Args:
        variants: At least two.
        quantities: What to compare; by default worst, mean, variance and Jain's index.
        about: Remarks on the runs; by default those that they give cause for.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        quantities: Sequence[Quantity] = OVERALL,
        about: Sequence[Remark] | None = None,
    ) -> None:
        refuse_other_tasks(variants)
        if len(variants) < 2:
            raise InputError(f"differences need a second variant, got only {variants[0].name!r}")
        self._steps = _steps(variants, quantities)
        about = remarks(variants) if about is None else about
        self._serious = any(remark.serious for remark in about)
        self._first = mark_name(variants[0].name, about)
        self._others = [
            (
                mark_name(other.name, about),
                [compare_variants(variants[0], other, quantity) for quantity in quantities],
            )
            for other in variants[1:]
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        pairs = [pair for _, of_variant in self._others for pair in of_variant]
        names = [
            name if number == 0 else ""
            for name, of_variant in self._others
            for number in range(len(of_variant))
        ]
        better = Column.of(f"{self._first} better in", map(_seeds, pairs), "left")
        columns = [
            Column.of("", names, "left"),
            Column.of("", [_label(pair.quantity) for pair in pairs], "left"),
            Column("difference", [_difference(pair) for pair in pairs]),
            Column.of("95% interval", map(_interval, pairs)),
            better.break_title(14),
        ]
        yield Grid(columns, repeat=2)
        yield make_text(self._note("*" if console.color_system is None else "Bold"), "dim")

    def markdown(self) -> str:
        """As a table of GitHub's Markdown, and a line that explains it."""
        first = escape_markdown(self._first)
        head = ["", "", "difference", "95% interval", f"{first} better in"]
        rows = [
            [
                escape_markdown(name),
                escape_markdown(_label(one.quantity)),
                _difference(one).markdown(),
                _interval(one),
                _seeds(one),
            ]
            for name, pairs in self._others
            for one in pairs
        ]
        return f"{markdown_table(head, rows, left=2)}\n{escape_markdown(self._note('Bold'))}\n"

    def _note(self, mark: str) -> str:
        note = f"Each row minus {self._first}, paired by seed; mean over seeds, Student's t."
        if any(_clear(one) for _, pairs in self._others for one in pairs):
            note += f" {mark}: the interval excludes 0."
        fewer = {q.counts_rounds for _, pairs in self._others for q in _with_fewer_seeds(pairs)}
        if True in fewer:
            note += " Seeds that never reached the target are left out."
        if False in fewer:
            note += " Seeds with a metric that is not finite are left out."
        if self._serious:
            note += f" {WARNING_SIGN}: see the remarks on the results."
        if any(one.quantity.better == "lower" for _, pairs in self._others for one in pairs):
            note += " ↓: lower is better."
        return note + self._steps


def data(variants: Sequence[Variant], target: float | None = None) -> dict[str, Any]:
    """Everything in both tables, by seed too, as JSON has it: what is unknown is None."""
    refuse_other_tasks(variants)
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
                "measured_every": [run.step for run in variant.runs.values()],
                "turns": {
                    name: sum(int(run.turns[column]) for run in variant.runs.values())
                    for column, name in enumerate(variant.tasks)
                },
                "tasks": {quantity.label: _plain(variant, quantity) for quantity in tasks},
                **{quantity.label.lower(): _plain(variant, quantity) for quantity in OVERALL},
                **as_data(variant),
                "rounds_to_target": None if goal is None else _plain(variant, goal),
            }
            for variant in variants
        ],
        "differences": [
            {
                "variant": other.name,
                "to": first.name,
                "tasks": {q.label: _plain_pair(compare_variants(first, other, q)) for q in tasks},
                **{
                    q.label.lower(): _plain_pair(compare_variants(first, other, q)) for q in OVERALL
                },
                "rounds_to_target": None
                if goal is None
                else _plain_pair(compare_variants(first, other, goal)),
            }
            for other in select_comparable(variants)[1:]
        ],
    }


def quantities(variant: Variant, target: float | None = None) -> list[Quantity]:
    """What a table of results has: the tasks, all of them together, rounds to a target."""
    tasks = [of_task(variant, name) for name in variant.tasks]
    return [*tasks, *OVERALL, *([] if target is None else [rounds_to(target)])]


def _grid(names: Sequence[str], titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Grid:
    """A row for each name, a column for each title."""
    columns = map(Column, titles, zip(*rows, strict=True))
    return Grid([Column.of("", names, "left"), *columns])


def _label(quantity: Quantity) -> str:
    return quantity.label + " ↓" * (quantity.better == "lower")


def _steps(variants: Sequence[Variant], quantities: Sequence[Quantity]) -> str:
    """A sentence about rounds to a target that are known only up to a step; or nothing."""
    step = max(run.step for variant in variants for run in variant.runs.values())
    if step < 2 or not any(quantity.counts_rounds for quantity in quantities):
        return ""
    return (
        f" Rounds to a target may be up to {step - 1} too high: the test split is evaluated every "
        f"{step} rounds (evaluate.every)."
    )


def _column(variants: Sequence[Variant], quantity: Quantity, sound: Sequence[bool]) -> list[Cell]:
    """One quantity of all variants; those stand out that look best, unless all look the same.

    Those that are not `sound`, since runs or tasks of theirs failed, are out of the competition.
    """
    spreads = [spread(variant.values(quantity).values()) for variant in variants]
    counts = [len(variant.seeds) for variant in variants]
    sign = 1 if quantity.better == "higher" else -1
    ranks = [
        (one.n / count, sign * round(one.mean, quantity.decimals)) if one.n else (0.0, 0.0)
        for one, count in zip(spreads, counts, strict=True)
    ]
    rivals = [rank for rank, fit in zip(ranks, sound, strict=True) if fit] or ranks
    best, differ = max(rivals), min(rivals) < max(rivals)
    return [
        Cell(_spread(one, count, quantity), fit and differ and rank == best)
        for one, count, rank, fit in zip(spreads, counts, ranks, sound, strict=True)
    ]


def _spread(values: Spread, seeds: int, quantity: Quantity) -> str:
    if not values.n:
        return "never" if quantity.counts_rounds else "-"
    text = number(values.mean, quantity.decimals)
    if not math.isnan(values.sd):
        text += f" ±{number(values.sd, quantity.decimals)}"
    return text if values.n == seeds else f"{text} {values.n}/{seeds}"


def _difference(pair: Paired) -> Cell:
    return Cell(_format_signed(pair.mean, pair), _clear(pair))


def _format_signed(value: float, pair: Paired) -> str:
    return number(value, pair.quantity.decimals, sign=True)


def _interval(pair: Paired) -> str:
    if pair.interval is None:
        return "-"
    low, high = (_format_signed(end, pair) for end in pair.interval)
    return f"[{low}, {high}]"


def _seeds(pair: Paired) -> str:
    n = len(pair.seeds)
    return f"{pair.first_better} of {n} seed{'s' * (n != 1)}"


def _with_fewer_seeds(pairs: Sequence[Paired]) -> list[Quantity]:
    most = max(len(pair.seeds) for pair in pairs)
    return [pair.quantity for pair in pairs if len(pair.seeds) < most]


def _clear(pair: Paired) -> bool:
    return pair.interval is not None and not pair.interval[0] <= 0 <= pair.interval[1]


def _plain(variant: Variant, quantity: Quantity) -> dict[str, Any]:
    values = variant.values(quantity)
    whole = spread(values.values())
    return {
        "mean": _known(whole.mean),
        "sd": _known(whole.sd),
        "n": whole.n,
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
