"""One figure of the analysis: what a corollary claims and what is true, and who joins an auction.

All of it is computed by `mmfl.theory`; nothing is trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.allocate import allocation_probabilities
from mmfl.market import MaxMinFair
from mmfl.market.bids_io import IncreasingLinear, TruncatedNormal
from mmfl.report.figures.page import fix_layout, make_page, set_heads
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import STRONG, own_style
from mmfl.rng import stream
from mmfl.theory import (
    inverse_size_term,
    join_budget_fair,
    join_max_min,
    join_sampled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_theorems", "save_theorems"]

_RED, _GREEN = STRONG[1], STRONG[2]
_LABEL: dict[str, Any] = {"weight": "bold", "va": "center", "linespacing": 1.25}

_CLIENTS = 2
_LOSSES = (1.0, 0.5)
_USERS, _BUDGET = 100, 29.0


def save_theorems(path: str | Path, *, draws: int = 400, seed: int = 0) -> Path:
    """Save the figure of `draw_theorems` to a file: .png, .svg or .pdf."""
    check_path(path)
    return save(draw_theorems(draws=draws, seed=seed), path)


def draw_theorems(*, draws: int = 400, seed: int = 0) -> Figure:
    """Return the figure, as a matplotlib object.

    On the left the noise term of the convergence theorem for the worst of two tasks (losses 1 and
    .5, two clients) over alpha, which the corollary says falls; and the same given that somebody
    trains. On the right the chance of joining over the bid, Experiment 5 (100 users, budget 29):
    the cheap task under Budget-Fair and under Max-Min, exactly, and sampled auctions as dots.

    Args:
        draws: Auctions held for each dot.
        seed: Of these.
    """
    heads = (
        ("More α does not always mean less noise",
         "E[Σ w²] of the worst of two tasks, two clients"),
        ("Who joins the cheap task", "Chance to be recruited; dots: auctions held"),
    )  # fmt: skip
    with own_style():
        figure = make_page(3.4)
        left, right = figure.subplots(1, 2)
        set_heads((left, right), heads, 3.5)
        _draw_noise(left)
        _draw_joining(right, draws, seed)
        return fix_layout(figure)  # type: ignore[no-any-return]


def _draw_noise(axes: Any) -> None:
    alpha = np.linspace(1.0, 7.0, 181)
    q = [float(allocation_probabilities(_LOSSES, a)[0]) for a in alpha]
    axes.plot(alpha, [inverse_size_term(x, _CLIENTS, True) for x in q], color=_GREEN)
    axes.plot(alpha, [inverse_size_term(x, _CLIENTS) for x in q], color=_RED)
    axes.text(2.3, 0.755, "given that somebody trains:\nfalls, as claimed", color=_GREEN, **_LABEL)
    axes.text(1.55, 0.575, "as printed:\nrises first", color=_RED, **_LABEL)
    axes.set(xlim=(1, 7), ylim=(0.48, 0.86), xlabel="α")


def _draw_joining(axes: Any, draws: int, seed: int) -> None:
    own, other = TruncatedNormal(0.5, 0.2), IncreasingLinear()
    bids = np.linspace(0.3, 0.5, 161)
    first = [join_budget_fair(bid, _USERS, 2, _BUDGET, own.cdf) for bid in bids]
    second = [join_max_min(bid, _USERS, _BUDGET, own.cdf, [other.cdf]) for bid in bids]
    axes.plot(bids, first, color=_RED)
    axes.plot(bids, second, color=_GREEN)
    printed = "Budget-Fair;\nMax-Min as printed\nhas at least as much"
    axes.text(0.428, 0.62, printed, color=_RED, **_LABEL)
    axes.text(0.378, 0.42, "Max-Min, exact", color=_GREEN, **(_LABEL | {"ha": "right"}))
    auction = MaxMinFair(budget=_BUDGET, fractional=False)
    for bid in np.linspace(0.32, 0.46, 8):
        rng = stream(seed, "theorems", round(100 * bid))
        held = join_sampled(bid, _USERS, [own, other], auction, draws=draws, rng=rng)
        axes.plot(bid, held.full, "o", color=_GREEN, markersize=3.5, markerfacecolor="white")
    axes.set(xlim=(0.3, 0.5), ylim=(0, 1.02), xlabel="bid for the cheap task")
    axes.set_xticks([0.3, 0.35, 0.4, 0.45, 0.5])
