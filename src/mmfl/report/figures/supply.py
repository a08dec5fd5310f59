"""A figure of one auction: the offers for each task by rank, who won, and at what price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.market import SLACK
from mmfl.report.figures.page import WIDTH, fix_layout, format_brief, make_page, set_heads
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import STRONG, own_style
from mmfl.report.words import amount, counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmfl.market import Recruitment

__all__ = ["draw_supply", "save_supply"]

_PANELS, _DOTS = 24, 120  # at most: on a page, and in a panel
_FAR = 3  # times what the recruited get: bids above are not shown
_WON, _PAID = STRONG[0], "#D4E6F1"
_DOT: dict[str, Any] = {"linestyle": "", "marker": "o", "markeredgewidth": 0.9}
_HALF_DOT = {"color": _WON, "fillstyle": "left", "markerfacecoloralt": "white", "markersize": 5}
_LOOKS: dict[str, dict[str, Any]] = {
    "recruited": _DOT | {"color": _WON},
    "recruited in part": _DOT | _HALF_DOT,
    "not recruited": _DOT | {"markerfacecolor": "white", "markeredgecolor": "#B5B5B5"},
    "price, paid to each recruited": {"color": STRONG[1], "linewidth": 1.5},
}


def save_supply(outcome: Recruitment, path: str | Path, *, title: str = "") -> Path:
    """Save the figure of `draw_supply` to a file, which is replaced: .png, .svg or .pdf."""
    check_path(path)
    return save(draw_supply(outcome, title=title), path)


def draw_supply(outcome: Recruitment, *, title: str = "") -> Figure:
    """A panel per task: clients by rank against their bids, who won, and at what price.

    All panels have the same axes, so that tasks can be compared, unless the bids of
    one task are so large that another's would vanish; then each panel has its own scale for bids.
    Of many clients only some are shown: those at equal steps, and those at the cut-off.

    Args:
        outcome: The auction's outcome.
        title: Which auction it was, e.g. "max_min_fair, budget 29".
    """
    tasks = [_Offers(outcome, s) for s in range(min(len(outcome.bids.tasks), _PANELS))]
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3}.get(len(tasks), 4)
    rows = -(-len(tasks) // columns)
    last, tops = _find_limits(tasks)
    about = _describe(outcome, tasks, last, tops)
    with own_style():
        height = 0.6 + (2.1 if rows < 3 else 1.8) * rows
        figure = make_page(height, title=title, marks=_make_key(tasks), foot=about)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
        for axes in panels[len(tasks) :]:
            axes.set_axis_off()
        panels = panels[: len(tasks)]
        heads = [(task.name, task.told) for task in tasks]
        set_heads(panels, heads, WIDTH / columns - 0.45)
        for number, (axes, task, top) in enumerate(zip(panels, tasks, tops, strict=True)):
            task.draw(axes, last)
            axes.set(xlim=(0.2, max(last, 1) + 0.8), ylim=(-0.04 * top, 1.15 * top))
            axes.locator_params(axis="x", nbins=8 if last <= 8 else 4, integer=True, min_n_ticks=1)
            axes.locator_params(axis="y", nbins=4)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter(format_brief)
            axes.tick_params(labelleft=number % columns == 0 or len(set(tops)) > 1)
            axes.set_ylabel("" if number % columns else "bid")
            axes.set_xlabel("" if number + columns < len(tasks) else "clients, cheapest first")
        return fix_layout(figure)  # type: ignore[no-any-return]


def _find_limits(tasks: Sequence[_Offers]) -> tuple[int, list[float]]:
    """How many clients to show, and up to what bid; the same for all tasks if possible."""
    last = max(task.last for task in tasks)
    highest = _FAR * max(task.level for task in tasks) or math.inf
    tops = [task.find_top(last, highest) for task in tasks]
    known = [top for top in tops if top] or [1.0]
    if max(known) <= 5 * min(known):
        return last, [max(known)] * len(tasks)
    return last, [task.find_top(last, _FAR * task.level or highest) or 1.0 for task in tasks]


def _make_key(tasks: Sequence[_Offers]) -> dict[str, Any]:
    """What the marks that are drawn mean."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    priced = any(task.price is not None for task in tasks)
    unused = set() if priced else {"price, paid to each recruited"}
    if all(task.part is None for task in tasks):
        unused.add("recruited in part")
    marks: dict[str, Any] = {
        name: Line2D([], [], **look) for name, look in _LOOKS.items() if name not in unused
    }
    marks["money spent" if priced else "money spent: each is paid its bid"] = Patch(color=_PAID)
    return marks


def _describe(
    outcome: Recruitment, tasks: Sequence[_Offers], last: int, tops: Sequence[float]
) -> str:
    """The result as a whole, and what is not shown."""
    S = len(outcome.bids.tasks)
    fewest, more = counts([outcome.min_take_up, outcome.difference])
    even = outcome.difference < 0.005
    uneven = f"The task with the fewest clients has {fewest}, the one with the most {more} more."
    hidden = any(task.hides(last, top) for task, top in zip(tasks, tops, strict=True))
    lines = {
        f"Every task has {fewest} clients." if even else uneven: S > 1,
        f"{amount(outcome.spent)} is spent in all.": True,
        "Each panel has its own scale for bids.": len(set(tops)) > 1,
        f"A dot stands for about {round(last / _DOTS):,} clients.": last > _DOTS,
        "Clients with higher bids are not shown.": hidden,
        f"{S - len(tasks):,} more tasks are not shown.": len(tasks) < S,
    }
    return " ".join(line for line, needed in lines.items() if needed)


class _Offers:
    """What is known about a task: its (n) willing clients, the cheapest first."""

    def __init__(self, outcome: Recruitment, s: int) -> None:
        order = outcome.bids.order[s, : int(outcome.bids.willing[s])]
        part = outcome.fractional[s]
        self.name, self.told = outcome.bids.tasks[s], _tell(outcome, s)
        self.bids, self.paid = outcome.bids.values[order, s], outcome.payment[order, s]
        self.x = outcome.participation[order, s]
        self.price, self.won = outcome.price[s], len(outcome.winners[s])
        self.part: int | None = None  # the place of the client that is recruited in part
        if part is not None and not _is_whole(part.participation):
            self.part = int(np.flatnonzero(order == part.user)[0])
        self.end = int(np.flatnonzero(self.x > 0).max(initial=-1)) + 1

    @property
    def last(self) -> int:
        """How many of the cheapest clients are worth showing: the recruited, and the next few."""
        return min(len(self.bids), max(self.end + 6, round(1.3 * self.end)))

    @property
    def level(self) -> float:
        """The largest amount that a recruited client asks for or gets."""
        return float(max(self.bids[self.x > 0].max(initial=0.0), self.paid.max(initial=0.0)))

    def find_top(self, last: int, highest: float) -> float:
        """The largest amount to show; 0 if there is none."""
        shown = self.bids[:last]
        return float(max(shown[shown <= highest].max(initial=0.0), self.paid.max(initial=0.0)))

    def hides(self, last: int, top: float) -> bool:
        """Whether there are willing clients beyond these limits."""
        return len(self.bids) > last or bool((self.bids > 1.15 * top).any())

    def draw(self, axes: Any, last: int) -> None:
        """Dots for bids, an area for the money, a line for the price."""
        from matplotlib.patheffects import withStroke

        n = min(last, len(self.bids))
        cut = [place for place in (self.won - 1, self.end - 1, self.end) if 0 <= place < n]
        even = np.linspace(0, n - 1, min(_DOTS, n)).round()
        places = np.unique([*even, *cut]).astype(np.int64)
        if n:
            edges = np.array([0.5, *(places[1:] + places[:-1]) / 2 + 1, places[-1] + 1.5])
            axes.stairs(self.paid[places], edges, fill=True, color=_PAID, zorder=1)
        partly = places == (-1 if self.part is None else self.part)
        size = {"markersize": float(np.clip(16 / max(n, 1) ** 0.5, 2.2, 5)), "zorder": 3}
        for name, mask in (
            ("not recruited", self.x[places] == 0),
            ("recruited", (self.x[places] > 0) & ~partly),
            ("recruited in part", partly),
        ):
            axes.plot(places[mask] + 1, self.bids[places[mask]], **(size | _LOOKS[name]))
        if self.price is not None:
            look = _LOOKS["price, paid to each recruited"]
            axes.plot([0.5, self.won + 0.5], [self.price] * 2, zorder=2, **look)
            text = axes.annotate(
                amount(self.price), (0.5, self.price), (1, 2.5), textcoords="offset points",
                color=look["color"], weight="bold", zorder=4,
            )  # fmt: skip
            text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _is_whole(participation: float) -> bool:
    """Whether the money for a fractional client was enough for all of it."""
    return participation >= 1 - SLACK


def _tell(outcome: Recruitment, s: int) -> str:
    """The result for one task."""
    won, part, willing = len(outcome.winners[s]), outcome.fractional[s], outcome.bids.willing[s]
    if not willing:
        return "nobody is willing"
    if not won and part is None:
        return f"none of {willing:,} willing clients"
    more = ""
    if part is not None:
        whole, share = _is_whole(part.participation), min(max(part.participation, 0.01), 0.99)
        more = ", one more at its bid" if whole else f", {share:.0%} of one more"
    spent = amount(float(outcome.spend[s]), nothing=SLACK * outcome.spent)
    return f"{won:,} of {willing:,} willing{more}; {spent} spent"
