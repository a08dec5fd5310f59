"""What would happen: a plan's forecast for another alpha, and the auction with another budget."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.errors import InputError
from mmfl.experiment import Experiment
from mmfl.market import has_budget, replace_budget
from mmfl.planning import Plan, plan
from mmfl.report.document import show
from mmfl.runs import RunStore, read_bids

__all__ = ["forecast", "hold_auction"]

_DRAWS = 10


def forecast(folder: Path, alpha: float) -> dict[str, Any]:
    """What the whole run would be like with its own alpha, and with another.

    Args:
        folder: A run with a few rounds: its curves say how the tasks learn.
        alpha: The other one.
    """
    experiment = Experiment.load(folder / "experiment.toml")
    own = getattr(experiment.allocator, "alpha", None)
    if own is None:
        raise InputError("the rule of this run has no alpha")
    made = plan(experiment, alphas=[own, alpha], runs=[folder], draws=_DRAWS)
    return {
        "rounds": made.rounds,
        "draws": made.draws,
        "notes": made.notes,
        "scenarios": [_describe_scenario(made, own, "now")]
        + [_describe_scenario(made, alpha, "chosen")] * (alpha != own),
    }


def _describe_scenario(made: Plan, alpha: float, title: str) -> dict[str, Any]:
    scenario = made.at(alpha, made.budgets[0])
    metrics = [task.metric.mean for task in scenario.tasks.values() if task.metric is not None]
    return {
        "title": title,
        "alpha": f"{alpha:g}",
        "worst": show(min(metrics, default=math.nan), "share"),
        "tasks": [
            {
                "name": name,
                "clients": f"{task.clients.mean:.1f}",
                "share": show(task.share.mean, "percent"),
                "metric": show(task.metric.mean if task.metric else None, "share"),
                "extrapolated": task.extrapolated > 0.5,
            }
            for name, task in scenario.tasks.items()
        ],
    }


def hold_auction(folder: Path, budget: float) -> dict[str, Any]:
    """The outcome of a run's auction with another budget, on the bids that were made."""
    experiment = Experiment.load(folder / "experiment.toml")
    if experiment.recruitment is None:
        raise InputError("this run had no auction")
    mechanism = experiment.recruitment.mechanism
    if not has_budget(mechanism):
        raise InputError("the auction of this run has no budget")
    if not (math.isfinite(budget) and budget > 0):
        raise InputError("budget must be a number above 0")
    with closing(RunStore.open(folder)) as store:
        bids = read_bids(store)
    outcome = replace_budget(mechanism, budget).recruit(np.stack(list(bids.values()), axis=1))
    most = max(float(outcome.take_up.max()), 1.0)
    return {
        "budget": show(budget, "money"),
        "spent": show(outcome.spent, "money"),
        "least": show(outcome.min_take_up, "count"),
        "tasks": [
            {
                "name": name,
                "take_up": show(float(outcome.take_up[s]), "count"),
                "width": round(100 * float(outcome.take_up[s]) / most, 1),
                "spend": show(float(outcome.spend[s]), "money"),
                "price": show(outcome.price[s], "money"),
            }
            for s, name in enumerate(bids)
        ],
    }
