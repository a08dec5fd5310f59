"""Pictures of auctions: one auction task by task, and mechanisms side by side over budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.market import Floats
from mmfl.report.figures.offers import Offers, frame, key
from mmfl.report.figures.page import Page, own_style
from mmfl.report.figures.panels import DASHES, GREY, INK, STRONG
from mmfl.report.figures.saving import check_path, save
from mmfl.report.words import amount, broken, counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmfl.market import Recruitment
    from mmfl.market.truthfulness import Contest

__all__ = ["draw_auctions", "draw_supply", "save_auctions", "save_supply"]

_WIDTH, _LEFT, _RIGHT, _EDGE = 8.0, 0.5, 7.84, 0.16
_TITLE, _NAME, _TEXT, _SMALL = 11.0, 9.0, 8.0, 7.5
_PANELS = 24
_FAR = 3  # times what the recruited get: bids above are not shown


def save_supply(outcome: Recruitment, path: str | Path, *, title: str = "") -> Path:
    """Draw one auction into a file: .png (1600 pixels wide), .svg or .pdf; see `draw_supply`.

    Args:
        outcome: The auction's.
        path: Where to; a file that is there is replaced.
        title: Which auction it was, e.g. "max_min_fair, budget 29".
    """
    check_path(path)
    return save(draw_supply(outcome, title=title), path)


def draw_supply(outcome: Recruitment, *, title: str = "") -> Figure:
    """A panel per task: clients by rank against their bids, who won, and at which price.

    All panels have the same axes, so that tasks can be compared, unless bids of one task are so
    much larger than another's that these would vanish; then each has a scale of its own for bids.
    Of many clients some are shown, at equal steps, and around the cut all that matter.
    """
    S = len(outcome.bids.tasks)
    shown = min(S, _PANELS)
    columns = shown if shown <= 3 else 2 if shown == 4 else 3 if shown <= 6 else 4
    rows = -(-shown // columns)
    tasks = [Offers.of(outcome, s) for s in range(shown)]
    last = max(task.last for task in tasks)
    highest = _FAR * max(task.level for task in tasks) or math.inf
    tasks = [task.until(last, highest) for task in tasks]
    tops = [task.top for task in tasks if task.top] or [1.0]
    alike = max(tops) <= 5 * min(tops)
    if not alike:
        tasks = [task.until(last, _FAR * task.level or highest) for task in tasks]
    with own_style():
        page = Page(_WIDTH, 1.0)
        notes = page.folded(_about(outcome, tasks, alike), _RIGHT - _LEFT, _TEXT)
        gap = 0.24 if alike else 0.42
        width = (_RIGHT - _LEFT - gap * (columns - 1)) / columns
        heads = [page.folded(task.told, width, _SMALL) for task in tasks]
        head = 0.24 + page.line(_SMALL) * max(map(len, heads))
        plot = 1.9 if rows == 1 else 1.45 if rows == 2 else 1.15
        row = head + plot + 0.34
        above = 0.72 if title else 0.46
        below = _EDGE + page.line(_TEXT) * len(notes)
        page.resize(above + rows * row + below + 0.14)
        if title:
            page.write(_LEFT, page.top - 0.3, page.cut(title, _RIGHT - _LEFT, _TITLE, "bold"),
                       _TITLE, weight="bold")  # fmt: skip
        key(page, _LEFT, page.top - above + 0.2, tasks)
        for number, (task, lines) in enumerate(zip(tasks, heads, strict=True)):
            left = _LEFT + number % columns * (width + gap)
            top = page.top - above - number // columns * row - 0.14
            name = page.cut(task.name, width, _NAME, "bold")
            page.write(left, top, name, _NAME, weight="bold", color=INK)
            page.write_lines(left, top - 0.15, lines, _SMALL, color=GREY)
            axes = page.axes(left, top + 0.14 - head - plot, width, plot)
            task.paint(axes, last, max(tops) if alike else task.top or 1.0)
            if alike and number % columns:
                axes.tick_params(labelleft=False)
            if number % columns == 0:
                axes.set_ylabel("bid", fontsize=_TEXT, color=GREY, labelpad=2)
            if number + columns >= shown:
                axes.set_xlabel("clients, cheapest first", fontsize=_TEXT, color=GREY, labelpad=2)
        page.write_lines(_LEFT, below - 0.14, notes, _TEXT, color=GREY)
    return page.figure


def _about(outcome: Recruitment, tasks: Sequence[Offers], alike: bool) -> str:
    """What came out in all, and what is not to be seen."""
    S, shown = len(outcome.bids.tasks), len(tasks)
    fewest, more = counts([outcome.min_take_up, outcome.difference])
    lines = []
    if S > 1 and outcome.difference < 0.005:
        lines.append(f"Every task has {fewest} clients.")
    elif S > 1:
        lines.append(
            f"The task with the fewest has {fewest} clients, that with the most {more} more."
        )
    lines.append(f"{amount(outcome.spent)} is spent in all.")
    if not alike:
        lines.append("Each panel has a scale of its own for bids.")
    step = max(task.step for task in tasks)
    if step > 1:
        lines.append(f"A dot stands for about {step:,} clients.")
    if any(task.hidden for task in tasks):
        lines.append("Clients who ask for still more are not shown.")
    if shown < S:
        lines.append(f"{S - shown:,} more tasks are not shown.")
    return " ".join(lines)


def save_auctions(contest: Contest, path: str | Path, *, title: str = "") -> Path:
    """Draw mechanisms side by side into a file: .png, .svg or .pdf; see `draw_comparison`.

    Args:
        contest: What came out.
        path: Where to; a file that is there is replaced.
        title: What was compared, e.g. "Experiment 5, 100 clients".
    """
    check_path(path)
    return save(draw_auctions(contest, title=title), path)


def draw_auctions(contest: Contest, *, title: str = "") -> Figure:
    """Two panels over the budget: how unlike the tasks' take-up is, and the smallest take-up.

    A line per mechanism: the mean over seeds, in a band from the lowest to the highest seed. It is
    dotted where a seed spends more than the budget, as mechanisms without a budget may.
    """
    with own_style():
        page = Page(_WIDTH, 1.0)
        heads = (
            ("Difference in take-up", "Clients of the task that has the most, minus those of the"
             " task that has the fewest. 0 is fair."),
            ("Minimum take-up", "Clients of the task that has the fewest. The more, the better."),
        )  # fmt: skip
        gap = 0.46
        width = (_RIGHT - _LEFT + 0.1 - gap) / 2
        folded = [page.folded(text, width, _TEXT) for _, text in heads]
        foot = page.folded(_foot(contest), _RIGHT - _LEFT, _TEXT)
        above = 0.2 + 0.3 * bool(title) + 0.24 + page.line(_TEXT) * max(map(len, folded))
        below = _EDGE + page.line(_TEXT) * len(foot) + 0.5
        lines = _Look.of(contest)
        page.resize(above + below + max(2.5, 0.31 * len(lines)))
        if title:
            page.write(_LEFT - 0.1, page.top - 0.3, title, _TITLE, weight="bold")
        for number, quantity in enumerate(("difference", "min_take_up")):
            left = _LEFT - 0.1 + number * (width + gap)
            top = page.top - 0.28 - 0.3 * bool(title)
            page.write(left, top, heads[number][0], _NAME + 1, weight="bold")
            page.write_lines(left, top - 0.19, folded[number], _TEXT, color=GREY)
            _over_budgets(page, contest, quantity, lines, (left, left + width),
                          (below, page.top - above))  # fmt: skip
        page.write_lines(_LEFT - 0.1, below - 0.52, foot, _TEXT, color=GREY)
    return page.figure


@dataclass(frozen=True)
class _Look:
    """How a mechanism is drawn: kinds by colour, their options by dashes; grey without a budget."""

    name: str
    colour: str
    dash: Any

    @classmethod
    def of(cls, contest: Contest) -> list[_Look]:
        found: list[_Look] = []
        seen: dict[tuple[str, bool], int] = {}
        for name in contest.mechanisms:
            kind = (name.partition(" ")[0], name in contest.unbudgeted)
            again = seen[kind] = seen.get(kind, -1) + 1
            if kind[1]:
                colour = ("#777777", "#333333")[again % 2]
            else:
                place = [key for key in seen if not key[1]].index(kind)
                colour = STRONG[place % len(STRONG)]
            found.append(cls(name, colour, DASHES[again % len(DASHES)]))
        return found


def _foot(contest: Contest) -> str:
    seeds = contest.seeds
    lines = []
    if len(seeds) > 1:
        lines.append(f"Line: mean of {len(seeds)} seeds. Band: from the lowest to the highest.")
    if any(not r.within for r in contest.results):
        lines.append("Dotted: spends more than the budget.")
    if contest.unbudgeted:
        lines.append("Grey: no budget, the same whatever the budget is.")
    return " ".join(lines)


def _over_budgets(
    page: Page,
    contest: Contest,
    quantity: str,
    lines: Sequence[_Look],
    across: tuple[float, float],
    along: tuple[float, float],
) -> None:
    from matplotlib.ticker import MaxNLocator

    values = {
        line.name: np.array([contest.values(line.name, b, quantity) for b in contest.budgets])
        for line in lines
    }
    texts = [_end(line.name, line.name in contest.unbudgeted, values[line.name]) for line in lines]
    column = max(page.width(text, _TEXT, "bold") for text in texts) + 0.14
    (left, right), (bottom, top) = across, along
    axes = page.axes(left, bottom, right - left - column, top - bottom)
    first, last = contest.budgets[0], contest.budgets[-1]
    high = max(float(rows.max()) for rows in values.values()) * 1.04 or 1.0
    frame(axes, [])
    pad = 0.0 if last > first else 0.1 * last
    axes.set(xlim=(first - pad, last + pad), ylim=(0, high))
    ticks = (
        contest.budgets if len(contest.budgets) <= 6 else MaxNLocator(6).tick_values(first, last)
    )
    axes.set_xticks([tick for tick in ticks if first <= tick <= last])
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: amount(value))
    axes.set_xlabel("budget", fontsize=_TEXT, color=GREY, labelpad=2)
    ends = []
    for number, line in enumerate(lines):
        rows = values[line.name]
        mean = rows.mean(axis=1)
        above = 3 + 2 * (len(lines) - number)
        if rows.shape[1] > 1:
            pale = 0.05 if line.name in contest.unbudgeted else 0.1
            axes.fill_between(contest.budgets, rows.min(axis=1), rows.max(axis=1),
                              color=line.colour, alpha=pale, linewidth=0)  # fmt: skip
        over = np.array([any(not r.within for r in contest.of(line.name, b))
                         for b in contest.budgets])  # fmt: skip
        reach = over | np.append(over[1:], False) | np.append(False, over[:-1])
        style = {"color": line.colour, "zorder": above, "clip_on": False}
        axes.plot(contest.budgets, np.where(reach, mean, np.nan), linestyle=(0, (1, 1.6)),
                  linewidth=1.4, **style)  # fmt: skip
        axes.plot(contest.budgets, np.where(over, np.nan, mean), linestyle=line.dash,
                  linewidth=1.6, **style)  # fmt: skip
        axes.plot(last, mean[-1], "o", markersize=3.2, **style)
        ends.append((right - column, bottom + float(mean[-1]) / high * (top - bottom)))
    page.label_ends(
        texts, [line.colour for line in lines], ends, _TEXT,
        edge=right - column, low=bottom - 0.14, high=top + 0.1,
    )  # fmt: skip


def _end(name: str, unbudgeted: bool, values: Floats) -> str:
    """A line's name and where it ends."""
    kept = " (no budget)" if unbudgeted else ""
    (value,) = [f"{values[-1].mean():,.1f}"]
    return broken(f"{name}{kept} {value}", 16)
