"""Studies of auctions alone, such as the paper's Experiment 5: nothing is trained.

An auction sweep is kept like a run: what a round is to a run, a budget (1, 2, ...) is to the sweep,
and a task's metric is its take-up. So claims and figures are the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import numpy as np
from pydantic import Field

from mmfl.config import Count, Text, component
from mmfl.market import MECHANISMS, Market, Mechanism, contest
from mmfl.report import Curves
from mmfl.reproduce.archive import Archive, ArchivedRun
from mmfl.reproduce.claims import CLAIMS, Claim
from mmfl.reproduce.panels import PANELS, Panel
from mmfl.runs import environment_now
from mmfl.system.calls import monotonic

__all__ = ["AuctionStudy", "hold_auctions"]


@component
class AuctionStudy:
    """Several mechanisms on several markets, with budgets from 1 on.

    Attributes:
        title: What it asks.
        paper: Where it is in the paper.
        budgets: The largest budget; all whole numbers from 1 on are tried.
        seeds: How many seeds of the bids, from 0.
        settings: Markets, by name.
        variants: Mechanisms, by name; their own budget is replaced.
        claims: What the paper says.
        panels: What its figure shows.
        columns: How many panels are in a row.
    """

    title: Text
    paper: Text
    budgets: Count
    seeds: Count
    settings: Annotated[dict[Text, Market], Field(min_length=1)]
    variants: Annotated[dict[Text, Annotated[Mechanism, MECHANISMS]], Field(min_length=1)]
    claims: tuple[Annotated[Claim, CLAIMS], ...] = ()
    panels: tuple[Annotated[Panel, PANELS], ...] = ()
    columns: Annotated[Count, Field(le=6)] = 3


def hold_auctions(study: AuctionStudy, seeds: Sequence[int], into: Archive) -> None:
    """Hold all auctions; add the take-up of each mechanism, by market and seed, to an archive."""
    budgets = [float(budget) for budget in range(1, study.budgets + 1)]
    here = environment_now()
    day = datetime.now(UTC).date().isoformat()
    made = f"{day}, {here['cores']} cores of {here['processor']}"
    for setting, market in study.settings.items():
        start = monotonic()
        found = contest(study.variants, {seed: market.bids(seed) for seed in seeds}, budgets)
        count = len(study.variants) * len(seeds)
        minutes = round((monotonic() - start) / 60 / count, 4)
        take_up = {(r.mechanism, r.seed, r.budget): r.take_up for r in found.results}
        tasks, better = found.tasks, ("higher",) * len(found.tasks)
        for name in study.variants:
            for seed in seeds:
                table = np.array([take_up[name, seed, budget] for budget in budgets])
                curves = Curves(tasks, better, table, np.zeros(table.shape, np.int64))
                into.add(setting, name, seed, ArchivedRun(curves, "", minutes, made))
