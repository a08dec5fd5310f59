"""The options of a plan: alphas, budgets, difficulties and targets, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mmfl.allocate import ALLOCATORS
from mmfl.errors import ConfigError, InputError, did_you_mean
from mmfl.experiment import Experiment
from mmfl.market import MECHANISMS, has_budget, replace_budget
from mmfl.objectives import refuse_target

__all__ = [
    "check_beta",
    "check_difficulties",
    "check_draws",
    "find_budget",
    "find_targets",
    "set_alpha",
    "set_budget",
]


def set_alpha(experiment: Experiment, alpha: float | None) -> Experiment:
    """The experiment with another alpha; None changes nothing."""
    if alpha is None:
        return experiment
    allocator: Any = experiment.allocator
    if not hasattr(allocator, "alpha"):
        raise InputError(f"alpha: the allocator {ALLOCATORS.kind_of(allocator)!r} has no alpha")
    with _own_rule():
        allocator = dataclasses.replace(allocator, alpha=float(alpha))
    return dataclasses.replace(experiment, allocator=allocator)


def set_budget(experiment: Experiment, budget: float | None) -> Experiment:
    """The experiment with another budget for its auction; None changes nothing."""
    if budget is None:
        return experiment
    if experiment.recruitment is None:
        raise InputError("budget: the experiment has no [recruitment], so nothing is spent")
    mechanism = experiment.recruitment.mechanism
    if not has_budget(mechanism):
        kind = MECHANISMS.kind_of(mechanism)
        raise InputError(f"budget: the mechanism {kind!r} has no budget")
    with _own_rule():
        mechanism = replace_budget(mechanism, float(budget))
    recruitment = dataclasses.replace(experiment.recruitment, mechanism=mechanism)
    return dataclasses.replace(experiment, recruitment=recruitment)


def find_budget(experiment: Experiment) -> float | None:
    """The auction's budget, if there is an auction and it has one."""
    mechanism = None if experiment.recruitment is None else experiment.recruitment.mechanism
    return getattr(mechanism, "budget", None)


def check_difficulties(given: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Every task's difficulty; it takes all of them to say which task is how much harder."""
    _refuse_strange("difficulty", given, names)
    for name in names:
        if name not in given:
            raise InputError(f"difficulty: task {name!r} is missing; every task needs one")
        f = given[name]
        if not 0 <= f < math.inf:
            raise InputError(f"difficulty of task {name!r} must be finite and >= 0, got {f:g}")
    return {name: float(given[name]) for name in names}


def check_draws(draws: int) -> None:
    """How many times each scenario is drawn."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise InputError(f"draws must be a whole number >= 1, got {draws!r}")


def check_beta(beta: float | None, curves: bool) -> None:
    """A power of a round's clients lies in [0, 1], and only curves over work need one."""
    if beta is None:
        return
    if not curves:
        raise InputError("beta applies only to the curves of runs; give a run")
    if not 0 <= beta <= 1:
        raise InputError(f"beta must be in [0, 1], got {beta:g}")


def find_targets(
    experiment: Experiment, given: float | Mapping[str, float] | None, curves: bool
) -> dict[str, float]:
    """The metric to reach, for tasks that have a target; only curves tell when it is reached."""
    names = [task.name for task in experiment.tasks]
    if given is not None and not curves:
        raise InputError("target: only learning curves show when it is reached; give a run")
    if not curves:
        return {}
    if given is None:
        return {task.name: task.target for task in experiment.tasks if task.target is not None}
    targets = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    _refuse_strange("target", targets, names)
    for name, value in targets.items():
        if not math.isfinite(value):
            raise InputError(f"target of task {name!r} must be a finite number, got {value:g}")
    for task in experiment.resolved().tasks:
        if task.name in targets:
            assert task.metric is not None
            rule = refuse_target(task.metric, targets[task.name])
            if rule:
                given_target = targets[task.name]
                raise InputError(f"target of task {task.name!r} {rule}, got {given_target:g}")
    return {name: float(targets[name]) for name in names if name in targets}


def _refuse_strange(what: str, given: Mapping[str, float], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise InputError(f"{what}: no task is called {name!r}; {did_you_mean(name, names)}")


@contextmanager
def _own_rule() -> Iterator[None]:
    """If a number breaks a component's own rule, the sentence is about the option alone."""
    try:
        yield
    except ConfigError as error:
        raise InputError(str(error).partition(": ")[2]) from None
