"""Tables of the benchmark: for a terminal of any width, and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mmfl.benchmark.benchmark import Benchmark
from mmfl.benchmark.scores import QUANTITIES, Estimate, RuleScore, Runs, find_common
from mmfl.fairness import Price
from mmfl.report import (
    Cell,
    Column,
    Variant,
    compare_variants,
    escape_markdown,
    markdown_table,
    number,
    spread,
)
from mmfl.reproduce import find_quantity

__all__ = ["make_matrix", "make_page", "make_prices", "make_ranking", "name_seeds"]

_DECIMALS = {title: find_quantity(what).decimals for title, what in QUANTITIES.items()}


def make_matrix(runs: Runs, rules: Sequence[str], title: str) -> list[Column]:
    """A quantity: a row per rule, a column per setting; the best of a setting stands out."""
    quantity = find_quantity(QUANTITIES[title])
    best = max if quantity.better == "higher" else min
    columns = [Column.of(title, rules, "left")]
    for setting, by_rule in runs.items():
        means = {r: spread(v.values(quantity).values()).mean for r, v in by_rule.items()}
        top = best((m for m in means.values() if not math.isnan(m)), default=math.nan)
        cells = []
        for rule in rules:
            mean = means.get(rule, math.nan)
            cells.append(Cell(number(mean, _DECIMALS[title]), mean == top and len(means) > 1))
        columns.append(Column(setting.replace("_", " "), cells))
    return columns


def make_prices(runs: Runs, rules: Sequence[str], baseline: str) -> list[Column]:
    """The price of fairness: a row per rule, a column per setting.

    That is the mean lost for a unit that the worst task gains, against the baseline; nothing where
    the worst task gains nothing.
    """
    columns = [Column.of("price", rules, "left")]
    for setting, by_rule in runs.items():
        prices = [_find_price(by_rule.get(rule), by_rule.get(baseline)) for rule in rules]
        columns.append(Column.of(setting.replace("_", " "), [number(one, 2) for one in prices]))
    return columns


def _find_price(rule: Variant | None, base: Variant | None) -> float:
    if rule is None or base is None or not set(rule.seeds) & set(base.seeds):
        return math.nan
    worst, mean = (
        compare_variants(base, rule, find_quantity(QUANTITIES[title])).mean
        for title in ("worst", "mean")
    )
    return Price(-mean, worst).rate


def make_ranking(scores: Sequence[RuleScore]) -> list[Column]:
    """All rules over all settings, the best rank of the worst task first."""
    ordered = sorted(scores, key=lambda one: one.ranks["worst"].value)
    columns = [Column.of("rule", [one.rule for one in ordered], "left")]
    for title, decimals in _DECIMALS.items():
        columns.append(
            Column.of(title, [number(one.means[title].value, decimals) for one in ordered])
        )
    for title in ("worst", "mean"):
        cells = [_write(one.ranks[title], 1) for one in ordered]
        columns.append(Column.of(f"rank by {title}", cells))
    for title in ("worst", "mean"):
        cells = [_write(one.gains[title], 3, sign=True) if one.gains else "-" for one in ordered]
        columns.append(Column.of(f"{title} gained", cells))
    columns.append(Column.of("price", [number(one.price, 2) for one in ordered]))
    return columns


def make_page(benchmark: Benchmark, runs: Runs, scores: Sequence[RuleScore], made: str) -> str:
    """All tables as Markdown."""
    rules = [rule for rule in benchmark.rules if any(rule in by for by in runs.values())]
    ranked = find_common(runs, rules)
    parts = [
        "# Rules by settings\n",
        f"Scale {benchmark.scale}, {name_seeds(runs)}. {made}\n",
        f"## Over {len(ranked)} settings\n",
        _markdown(make_ranking(scores)) if scores else "No setting has runs of all rules.\n",
        *(f"## {title}\n\n{_markdown(make_matrix(runs, rules, title))}" for title in QUANTITIES),
        f"## price\n\n{_markdown(make_prices(runs, rules, benchmark.suite.baseline))}",
    ]
    return "\n".join(parts)


def name_seeds(runs: Runs) -> str:
    """The seeds of all runs, in words."""
    seeds = sorted({seed for by in runs.values() for v in by.values() for seed in v.seeds})
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _markdown(columns: Sequence[Column]) -> str:
    rows: Iterable[Sequence[str]] = zip(
        *([_escape(cell).markdown() for cell in column.cells] for column in columns), strict=True
    )
    return markdown_table([column.title for column in columns], [*rows], 1)


def _escape(cell: Cell) -> Cell:
    return Cell(escape_markdown(cell.text), cell.bold)


def _write(estimate: Estimate, decimals: int, *, sign: bool = False) -> str:
    """A number with its interval."""
    value = number(estimate.value, decimals, sign=sign)
    if math.isnan(estimate.low):
        return value
    low, high = (number(end, decimals, sign=sign) for end in estimate[1:])
    return f"{value} [{low}, {high}]"
