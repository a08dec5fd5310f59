"""One panel of an auction's picture: the offers for a task by rank, who won, and at which price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.market import SLACK, Floats, Ints
from mmfl.report.figures.page import Page
from mmfl.report.figures.panels import GREY, INK, RULE, STRONG
from mmfl.report.words import amount

if TYPE_CHECKING:
    from mmfl.market import Recruitment

__all__ = ["Offers", "frame", "key"]

_TEXT, _SMALL = 8.0, 7.5
_WON, _PAID, _LOST, _PRICE = STRONG[0], "#D4E6F1", "#B5B5B5", STRONG[1]
_DOTS = 120  # in a panel, at most about


@dataclass(frozen=True)
class Offers:
    """What is known about a task, and the panel that shows it.

    Attributes:
        name: The task's.
        told: Its result in words.
        bids: (n) all willing clients' bids, ascending.
        x: (n) their participation, in that order.
        paid: (n) what they are paid.
        price: What each winner is paid, if that is the same for all.
        won: How many were recruited at that price, the first ones then.
        part: The place of the client that is recruited in part, if there is one.
        places: (m) those that are shown.
    """

    name: str
    told: str
    bids: Floats
    x: Floats
    paid: Floats
    price: float | None
    won: int
    part: int | None
    places: Ints

    @classmethod
    def of(cls, outcome: Recruitment, s: int) -> Offers:
        """The offers for task s, none of them shown yet."""
        column = outcome.bids.values[:, s]
        order = outcome.bids.order[s, : int(outcome.bids.willing[s])]
        part = outcome.fractional[s]
        whole = part is None or _whole(part.participation)
        return cls(
            name=outcome.bids.tasks[s],
            told=_told(outcome, s),
            bids=column[order],
            x=outcome.participation[order, s],
            paid=outcome.payment[order, s],
            price=outcome.price[s],
            won=len(outcome.winners[s]),
            part=None if part is None or whole else int(np.flatnonzero(order == part.user)[0]),
            places=np.arange(0),
        )

    @property
    def last(self) -> int:
        """How many of the cheapest clients are worth showing: the recruited, and the next few."""
        joined = np.flatnonzero(self.x > 0)
        end = int(joined[-1]) + 1 if len(joined) else 0
        return min(len(self.bids), max(end + 6, round(1.3 * end)))

    @property
    def level(self) -> float:
        """The largest amount that a recruited client asks or gets."""
        joins = self.x > 0
        return float(max(self.bids[joins].max(initial=0.0), self.paid[joins].max(initial=0.0)))

    @property
    def top(self) -> float:
        """The largest amount that is shown."""
        shown = self.places
        return float(max(self.bids[shown].max(initial=0.0), self.paid[shown].max(initial=0.0)))

    @property
    def step(self) -> int:
        """How many clients a dot stands for."""
        return int(np.diff(self.places).max(initial=1))

    @property
    def hidden(self) -> bool:
        """Whether there are willing clients beyond those that are shown."""
        return len(self.bids) > (int(self.places[-1]) + 1 if len(self.places) else 0)

    def until(self, last: int, highest: float) -> Offers:
        """The same with places up to the `last`-th client and bid `highest`; of many only some."""
        n = min(last, int(np.searchsorted(self.bids, highest, "right")))
        step = max(1, round(last / _DOTS))
        places = np.arange(0, n, step)
        joined = np.flatnonzero(self.x[:n] > 0)
        if step > 1 and len(joined) and joined[-1] == len(joined) - 1:  # they end at a cut
            near = [*joined[-2:], min(joined[-1] + 1, n - 1)]
            places = np.unique([*places, *near, *([] if self.part is None else [self.part])])
        return replace(self, places=places.astype(np.int64))

    def paint(self, axes: Any, last: int, top: float) -> None:
        """Draw the panel."""
        at, x = self.places + 1, self.x[self.places]
        bids, paid = self.bids[self.places], self.paid[self.places]
        frame(axes, _ticks(last))
        pad = 0.03 * max(last, 1) + 0.5
        axes.set(xlim=(1 - pad, max(last, 1) + pad), ylim=(0, 1.12 * top))
        if len(at):
            middles = (at[1:] + at[:-1]) / 2
            edges = np.concatenate(([0.5], middles, [at[-1] + 0.5]))
            steps = np.stack([edges[:-1], edges[1:]], axis=1).ravel()
            axes.fill_between(steps, np.repeat(paid, 2), color=_PAID, linewidth=0, zorder=1)
        size = float(np.clip(260 / max(len(at), 1), 5, 26))
        wide = {"clip_on": False, "linewidth": 0.9, "zorder": 3}
        lost, won = x == 0, (x > 0) & (self.places != (-1 if self.part is None else self.part))
        axes.scatter(at[lost], bids[lost], size, facecolor="white", edgecolor=_LOST, **wide)
        axes.scatter(at[won], bids[won], size, facecolor=_WON, edgecolor=_WON, **wide)
        if self.part is not None:
            _half(axes, self.part + 1, float(self.bids[self.part]), max(size, 14))
        if self.price is not None:
            axes.plot(
                [0.5, self.won + 0.5], [self.price] * 2, color=_PRICE, linewidth=1.5, zorder=2
            )
            axes.annotate(amount(self.price), (0.5, self.price), (1, 2.5), size=_TEXT, zorder=4,
                          textcoords="offset points", color=_PRICE, weight="bold")  # fmt: skip


def _whole(participation: float) -> bool:
    """Whether the money for a fractional client sufficed for all of it."""
    return participation >= 1 - SLACK


def _told(outcome: Recruitment, s: int) -> str:
    """What came out for a task."""
    won, part, willing = len(outcome.winners[s]), outcome.fractional[s], outcome.bids.willing[s]
    if not willing:
        return "nobody is willing"
    if not won and part is None:
        return f"none of {willing:,} willing clients"
    more = ""
    if part is not None:
        share = min(max(part.participation, 0.01), 0.99)
        more = (
            ", one more at its bid" if _whole(part.participation) else f", {share:.0%} of one more"
        )
    spent = amount(float(outcome.spend[s]), nothing=SLACK * outcome.spent)
    return f"{won:,} of {willing:,} willing{more}; {spent} spent"


def key(page: Page, left: float, y: float, tasks: Sequence[Offers]) -> None:
    """What the marks mean, in one line."""
    from matplotlib.patches import Rectangle

    x = left
    style: dict[str, Any] = {
        "markersize": 4.6,
        "linestyle": "",
        "markeredgewidth": 0.9,
        "marker": "o",
    }
    half: dict[str, Any] = {"fillstyle": "left", "markerfacecoloralt": "white"}
    entries: list[tuple[str, dict[str, Any]]] = [("recruited", {"color": _WON})]
    if any(task.part is not None for task in tasks):
        entries.append(("recruited in part", {"color": _WON} | half))
    entries.append(("not recruited", {"markerfacecolor": "white", "markeredgecolor": _LOST}))
    for text, own in entries:
        page.space.plot([x + 0.04], [y + 0.035], **(style | own))
        page.write(x + 0.13, y, text, _TEXT, color=INK)
        x += 0.13 + page.width(text, _TEXT) + 0.22
    if any(task.price is not None for task in tasks):
        page.space.plot([x, x + 0.16], [y + 0.035] * 2, color=_PRICE, linewidth=1.5)
        page.write(x + 0.21, y, "price, paid to each recruited", _TEXT, color=INK)
        x += 0.21 + page.width("price, paid to each recruited", _TEXT) + 0.22
        area = "money spent"
    else:
        area = "money spent: each is paid its bid"
    page.space.add_patch(Rectangle((x, y - 0.02), 0.16, 0.11, facecolor=_PAID))
    page.write(x + 0.21, y, area, _TEXT, color=INK)


def _half(axes: Any, x: float, y: float, size: float) -> None:
    """A dot that is half full."""
    axes.plot(
        [x], [y], marker="o", markersize=np.sqrt(size) * 1.15, fillstyle="left", color=_WON,
        markerfacecoloralt="white", markeredgewidth=0.9, zorder=4, clip_on=False,
    )  # fmt: skip


def _ticks(last: int) -> list[int]:
    """Which places are numbered: none at 0, and no long number at the very end."""
    from matplotlib.ticker import MaxNLocator

    if last <= 8:
        return list(range(1, max(last, 1) + 1))
    end = last if last < 1000 else 0.92 * last
    values = MaxNLocator(4, integer=True, steps=[1, 2, 2.5, 5, 10]).tick_values(0, last)
    return [int(value) for value in values if 0 < value <= end]


def _brief(value: float) -> str:
    """An amount beside an axis, where there is little room."""
    if abs(value) >= 1e12:
        return f"{value:.3g}"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit and abs(value) >= 1e4:
            return f"{value / unit:.4g}{name}"
    return amount(value)


def frame(axes: Any, ticks: Sequence[float]) -> None:
    """The house style: no box, pale lines across, small grey numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xticks(ticks, [f"{value:,.0f}" for value in ticks])
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _brief(value)))
    axes.tick_params(labelsize=_SMALL, length=0, colors=GREY, pad=3)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
