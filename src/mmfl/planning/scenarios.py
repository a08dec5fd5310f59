"""From trials (one draw of one scenario each) to what to expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mmfl.planning.outlook import Estimate, Outlook, Reach, Scenario, Source
from mmfl.planning.trials import Auction, Trial

__all__ = ["summarize_trials"]

Floats = npt.NDArray[np.float64]


def summarize_trials(
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
    auctions: Sequence[Auction],
    s: int,
    target: float | None,
    source: Source,
) -> Outlook:
    def over(of: Callable[[Trial], Floats]) -> Estimate:
        values = np.array([of(trial)[s] for trial in cell])
        return Estimate.of(values[~np.isnan(values)])

    recruited = {
        name: Estimate.of([getattr(a, field)[s] for a in auctions])
        for name, field in (("take_up", "take_up"), ("spend", "spend"), ("nobody", "left_out"))
        if auctions
    }
    known = {}
    if source == "runs":
        known = {"difficulty": over(lambda t: t.difficulty), "metric": over(lambda t: t.metric)}
    reach = None
    if target is not None:
        reached = [float(trial.reached[s]) for trial in cell]
        reach = Reach.of(target, reached, [bool(t.beyond[s] <= t.reached[s]) for t in cell])
    return Outlook(
        clients=over(lambda t: t.clients),
        share=over(lambda t: t.share),
        starved=over(lambda t: t.starved),
        **recruited,
        **known,
        extrapolated=float(np.mean([np.isfinite(trial.beyond[s]) for trial in cell])),
        reach=reach,
    )
