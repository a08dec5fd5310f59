"""The auctions of a variant: take-up, prices, payments, spend, and who was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.report.document.facts import RunFacts
from mmfl.report.statistics import spread
from mmfl.runs import StoredRecruitment

__all__ = ["describe_auctions"]

_NAMED = 40
"""How many clients that were left out are named."""


def describe_auctions(facts: Mapping[int, RunFacts], clients: int | None) -> dict[str, Any] | None:
    """What the auctions of a variant did, over its seeds; None if it had none.

    Args:
        facts: Its runs, by seed.
        clients: How many clients there are: if that is the number of bidders, their rows are ids.
    """
    with_auction = {seed: one for seed, one in facts.items() if one.run.recruitment is not None}
    if not with_auction:
        return None
    auctions = [_recruitment(one) for one in with_auction.values()]
    first_seed, first = next(iter(with_auction.items()))
    names = list(auctions[0].tasks)
    budgets = {auction.budget for auction in auctions}
    left_out = [_find_left_out(one) for one in with_auction.values()]
    willing = [_count_willing(one) for one in with_auction.values()]
    bidders = _count_bidders(first)
    named = left_out[0][:_NAMED].tolist() if bidders == clients else []
    return {
        "mechanism": auctions[0].mechanism,
        "budget": auctions[0].budget if len(budgets) == 1 else None,
        "stops": sorted({auction.stop for auction in auctions if auction.stop}),
        "seeds": list(with_auction),
        "bidders": bidders,
        "tasks": {name: _describe_task(name, list(with_auction.values())) for name in names},
        "spent": _over([auction.spent for auction in auctions]),
        "paid": _over([auction.paid for auction in auctions]),
        "min_take_up": _over([auction.min_take_up for auction in auctions]),
        "willing": _over(willing),
        "left_out": _over([len(found) for found in left_out]),
        "left_out_first": {"seed": first_seed, "clients": named, "count": len(left_out[0])},
    }


def _recruitment(facts: RunFacts) -> StoredRecruitment:
    assert facts.run.recruitment is not None
    return facts.run.recruitment


def _describe_task(name: str, facts: Sequence[RunFacts]) -> dict[str, Any]:
    tasks = [_recruitment(one).tasks[name] for one in facts]
    found: dict[str, Any] = {
        key: _over([getattr(task, key) for task in tasks])
        for key in ("willing", "winners", "take_up", "price", "spend", "paid")
    }
    payments = [[a.payment for a in one.awards if a.task == name] for one in facts]
    found["highest_payment"] = _over([max(given) if given else None for given in payments])
    return found


def _over(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean and standard deviation over the seeds that have a value."""
    known = [float(value) for value in values if value is not None]
    found = spread(known)
    return {
        "mean": found.mean if found.n else None,
        "sd": found.sd if found.n > 1 and np.isfinite(found.sd) else None,
        "n": found.n,
        "values": list(values),
    }


def _willing(facts: RunFacts) -> npt.NDArray[np.bool_]:
    """Per bidder, whether it was willing to train any task."""
    if not facts.bids:
        return np.zeros(0, np.bool_)
    return np.asarray(np.isfinite(np.stack(list(facts.bids.values()))).any(axis=0))


def _count_bidders(facts: RunFacts) -> int:
    return len(_willing(facts))


def _count_willing(facts: RunFacts) -> int:
    return int(_willing(facts).sum())


def _find_left_out(facts: RunFacts) -> npt.NDArray[np.int64]:
    """The bidders that were willing and won nothing, as rows of the bids."""
    willing = np.flatnonzero(_willing(facts))
    winners = {award.client for award in facts.awards}
    return np.array([row for row in willing.tolist() if row not in winners], np.int64)
