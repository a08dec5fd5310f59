"""What a plan is asked for: alphas, budgets, difficulties and targets, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mmfl.allocate import ALLOCATORS
from mmfl.errors import ConfigError, InputError, did_you_mean
from mmfl.experiment import Experiment
from mmfl.market import MECHANISMS

__all__ = [
    "budget_of",
    "difficulties",
    "refuse_beta",
    "targets_of",
    "with_alpha",
    "with_other_budget",
]


def with_alpha(experiment: Experiment, alpha: float | None) -> Experiment:
    """The experiment with another alpha; None changes nothing."""
    if alpha is None:
        return experiment
    allocator: Any = experiment.allocator
    if not hasattr(allocator, "alpha"):
        raise InputError(f"alpha: the allocator {ALLOCATORS.kind_of(allocator)!r} has no alpha")
    return dataclasses.replace(experiment, allocator=_changed(allocator, "alpha", alpha))


def with_other_budget(experiment: Experiment, budget: float | None) -> Experiment:
    """The experiment with another budget for its auction; None changes nothing."""
    if budget is None:
        return experiment
    if experiment.recruitment is None:
        raise InputError("budget: the experiment has no [recruitment], so nothing is spent")
    mechanism = experiment.recruitment.mechanism
    if not hasattr(mechanism, "budget"):
        kind = MECHANISMS.kind_of(mechanism)
        raise InputError(f"budget: the mechanism {kind!r} has no budget")
    mechanism = _changed(mechanism, "budget", budget)
    recruitment = dataclasses.replace(experiment.recruitment, mechanism=mechanism)
    return dataclasses.replace(experiment, recruitment=recruitment)


def budget_of(experiment: Experiment) -> float | None:
    """The auction's budget, if there is an auction and it has one."""
    mechanism = None if experiment.recruitment is None else experiment.recruitment.mechanism
    return getattr(mechanism, "budget", None)


def difficulties(given: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Every task's difficulty; it takes all of them to say which task is how much harder."""
    _refuse_strange("difficulty", given, names)
    for name in names:
        if name not in given:
            raise InputError(f"difficulty: task {name!r} is missing; every task needs one")
        f = given[name]
        if not 0 <= f < math.inf:
            raise InputError(f"difficulty of task {name!r} must be finite and >= 0, got {f:g}")
    return {name: float(given[name]) for name in names}


def refuse_beta(beta: float | None, curves: bool) -> None:
    """A power of a round's clients lies in [0, 1], and only curves over work need one."""
    if beta is None:
        return
    if not curves:
        raise InputError("beta: only a run's curves are over the work done; give a run")
    if not 0 <= beta <= 1:
        raise InputError(f"beta must be in [0, 1], got {beta:g}")


def targets_of(
    experiment: Experiment, given: float | Mapping[str, float] | None, curves: bool
) -> dict[str, float]:
    """By task, the metric to reach, as far as there is one; only curves tell when that is."""
    names = [task.name for task in experiment.tasks]
    if given is not None and not curves:
        raise InputError("target: only a run's curves can tell when it is reached; give a run")
    if not curves:
        return {}
    if given is None:
        return {task.name: task.target for task in experiment.tasks if task.target is not None}
    found = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    _refuse_strange("target", found, names)
    for name, value in found.items():
        if not math.isfinite(value):
            raise InputError(f"target of task {name!r} must be a finite number, got {value:g}")
    return {name: float(found[name]) for name in names if name in found}


def _refuse_strange(what: str, given: Mapping[str, float], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise InputError(f"{what}: no task is called {name!r}; {did_you_mean(name, names)}")


def _changed(value: Any, field: str, to: float) -> Any:
    """A component with another number in a field; its own rule, if that breaks it."""
    try:
        return dataclasses.replace(value, **{field: float(to)})
    except ConfigError as error:
        raise InputError(str(error).partition(": ")[2]) from None
