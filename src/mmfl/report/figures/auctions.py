"""A figure of mechanisms side by side over budgets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.report.figures.page import (
    fix_layout,
    fold_label,
    format_brief,
    make_page,
    measure_labels,
    name_ends,
    set_heads,
)
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import STRONG, get_line_look, own_style
from mmfl.report.words import thin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmfl.market.truthfulness import Contest

__all__ = ["draw_auctions", "save_auctions"]

_HEADS = {
    "difference": (
        "Difference in take-up",
        "Clients of the task that has the most, minus those of the task that has the fewest."
        " 0 is fair.",
    ),
    "min_take_up": (
        "Minimum take-up",
        "Clients of the task that has the fewest. The more, the better.",
    ),
}


def save_auctions(contest: Contest, path: str | Path, *, title: str = "") -> Path:
    """Save the figure of `draw_auctions` to a file, which is replaced: .png, .svg or .pdf."""
    check_path(path)
    return save(draw_auctions(contest, title=title), path)


def draw_auctions(contest: Contest, *, title: str = "") -> Figure:
    """Two panels over the budget: how unlike the tasks' take-up is, and the smallest take-up.

    A line per mechanism: the mean over seeds, in a band from the lowest to the highest seed. It is
    dotted where a seed spends more than the budget, as mechanisms without a budget may.

    Args:
        contest: What came out.
        title: What was compared, e.g. "Experiment 5, 100 clients".
    """
    looks = _choose_looks(contest)
    with own_style():
        labels = [[_name_end(contest, name, quantity) for name in looks] for quantity in _HEADS]
        height = 1.2 + max(2.5, measure_labels(labels[0]))
        figure = make_page(height, title=title, foot=_describe(contest))
        panels = figure.subplots(1, 2)
        set_heads(panels, _HEADS.values(), 3.5)
        for axes, quantity, names in zip(panels, _HEADS, labels, strict=True):
            lines = [
                _draw_line(axes, contest, name, quantity, look) for name, look in looks.items()
            ]
            _set_scales(axes, contest.budgets)
            name_ends(figure, axes, names, lines)
        return fix_layout(figure)  # type: ignore[no-any-return]


def _choose_looks(contest: Contest) -> dict[str, dict[str, Any]]:
    """Kinds differ by colour, their options by dashes; those without a budget are grey."""
    looks: dict[str, dict[str, Any]] = {}
    groups: dict[tuple[bool, str], list[str]] = {}
    for number, name in enumerate(contest.mechanisms):
        free = name in contest.unbudgeted
        group = groups.setdefault((free, name.partition(" ")[0]), [])
        group.append(name)
        kinds = [key for key in groups if not key[0]]
        colour = ("#777777", "#333333")[len(group) % 2 - 1]
        if not free:
            colour = get_line_look(kinds.index((free, name.partition(" ")[0])))["color"]
        dashes = get_line_look(len(STRONG) * (len(group) - 1))["linestyle"]
        looks[name] = {"color": colour, "linestyle": dashes, "zorder": 99 - number}
    return looks


def _describe(contest: Contest) -> str:
    seeds = len(contest.seeds)
    lines = {
        f"Line: mean of {seeds} seeds. Band: from the lowest to the highest.": seeds > 1,
        "Dotted: spends more than the budget.": any(not r.within for r in contest.results),
        "Grey: has no budget, so the line is flat.": bool(contest.unbudgeted),
    }
    return " ".join(line for line, needed in lines.items() if needed)


def _name_end(contest: Contest, name: str, quantity: str) -> str:
    """A line's name and where it ends."""
    kept = " (no budget)" if name in contest.unbudgeted else ""
    value = contest.mean(name, contest.budgets[-1], quantity)
    return fold_label(f"{name}{kept} {value:,.1f}")


def _draw_line(axes: Any, contest: Contest, name: str, quantity: str, look: dict[str, Any]) -> Any:
    """A mechanism's line and band; the mark at its end."""
    budgets = contest.budgets
    rows = np.array([contest.values(name, budget, quantity) for budget in budgets])
    mean = rows.mean(axis=1)
    if rows.shape[1] > 1:
        alpha = 0.05 if name in contest.unbudgeted else 0.1
        axes.fill_between(budgets, rows.min(axis=1), rows.max(axis=1), color=look["color"],
                          alpha=alpha, linewidth=0)  # fmt: skip
    over = np.array([any(not r.within for r in contest.of(name, b)) for b in budgets])
    reach = over | np.append(over[1:], False) | np.append(False, over[:-1])
    dotted = look | {"linestyle": (0, (1, 1.6)), "linewidth": 1.4}
    axes.plot(budgets, np.where(reach, mean, np.nan), clip_on=False, **dotted)
    axes.plot(budgets, np.where(over, np.nan, mean), clip_on=False, **look)
    return axes.plot(budgets[-1], mean[-1], marker="o", clip_on=False, **look)[0]


def _set_scales(axes: Any, budgets: tuple[float, ...]) -> None:
    first, last = budgets[0], budgets[-1]
    pad = 0.0 if last > first else 0.1 * last
    axes.set(xlim=(first - pad, last + pad), xlabel="budget")
    axes.set_ylim(bottom=0)
    axes.set_xticks(thin(budgets, 6))
    axes.xaxis.set_major_formatter(format_brief)
    axes.yaxis.set_major_formatter(format_brief)
    axes.locator_params(axis="y", nbins=5)
