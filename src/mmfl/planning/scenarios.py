"""From trials (one draw of one scenario each) to what is to be expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.planning.outlook import Estimate, Outlook, Reach, Scenario, Source

__all__ = ["Auctioned", "Trial", "gathered"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Auctioned:
    """An auction in numbers, by task.

    Attributes:
        take_up: (S) clients recruited.
        spend: (S) what is promised.
        left_out: (S) whether nobody was recruited who could train it.
    """

    take_up: Floats
    spend: Floats
    left_out: Bools


@dataclass(frozen=True, eq=False)
class Trial:
    """One draw of one scenario; arrays are by task.

    Attributes:
        alpha: Of the allocator; None if it has none.
        budget: Of the auction; None if there is none.
        active: Active clients in a round.
        clients: (S) accepted clients in a round.
        share: (S) of all turns.
        starved: (S) share of rounds without an accepted client.
        auction: What it decided; None if there was none.
        difficulty: (S) after the last round; NaN if there was no round.
        metric: (S) the same.
        reached: (S) the round in which the target was reached; inf = never.
        beyond: (S) the round from which on there was more work than the runs tell of; inf = never.
    """

    alpha: float | None
    budget: float | None
    active: float
    clients: Floats
    share: Floats
    starved: Floats
    auction: Auctioned | None
    difficulty: Floats
    metric: Floats
    reached: Floats
    beyond: Floats


def gathered(
    trials: Sequence[Trial], tasks: Sequence[str], targets: Mapping[str, float], source: Source
) -> tuple[Scenario, ...]:
    """The scenarios, by budget and alpha in the order in which they first came.

    Args:
        trials: Of all scenarios, in any order.
        tasks: The S names.
        targets: By task, the metric to reach.
        source: Where difficulties came from: only runs tell what they will be.
    """
    cells: dict[tuple[float | None, float | None], list[Trial]] = {}
    for trial in trials:
        cells.setdefault((trial.alpha, trial.budget), []).append(trial)
    return tuple(
        _scenario(alpha, budget, cell, tasks, targets, source)
        for (alpha, budget), cell in cells.items()
    )


def _scenario(
    alpha: float | None,
    budget: float | None,
    cell: Sequence[Trial],
    tasks: Sequence[str],
    targets: Mapping[str, float],
    source: Source,
) -> Scenario:
    auctions = [trial.auction for trial in cell if trial.auction is not None]
    return Scenario(
        alpha=alpha,
        budget=budget,
        tasks={
            task: _outlook(cell, auctions, s, targets.get(task), source)
            for s, task in enumerate(tasks)
        },
        active=Estimate.of([trial.active for trial in cell]),
        spent=Estimate.of([a.spend.sum() for a in auctions]) if auctions else None,
        nobody=Estimate.of([a.left_out.any() for a in auctions]) if auctions else None,
    )


def _outlook(
    cell: Sequence[Trial],
    auctions: Sequence[Auctioned],
    s: int,
    target: float | None,
    source: Source,
) -> Outlook:
    def over(of: Callable[[Trial], Floats]) -> Estimate:
        values = np.array([of(trial)[s] for trial in cell])
        return Estimate.of(values[~np.isnan(values)])

    hired = {
        name: Estimate.of([getattr(a, field)[s] for a in auctions])
        for name, field in (("take_up", "take_up"), ("spend", "spend"), ("nobody", "left_out"))
        if auctions
    }
    learnt = {}
    if source == "runs":
        learnt = {"difficulty": over(lambda t: t.difficulty), "metric": over(lambda t: t.metric)}
    reach = None
    if target is not None:
        reached = [float(trial.reached[s]) for trial in cell]
        reach = Reach.of(target, reached, [bool(t.beyond[s] <= t.reached[s]) for t in cell])
    return Outlook(
        clients=over(lambda t: t.clients),
        share=over(lambda t: t.share),
        starved=over(lambda t: t.starved),
        **hired,
        **learnt,
        extrapolated=float(np.mean([np.isfinite(trial.beyond[s]) for trial in cell])),
        reach=reach,
    )
