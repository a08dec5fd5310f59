"""Metrics: what a task is judged by. `METRICS` is the family's table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mmfl.config import Family, OwnFunction, problem, short
from mmfl.fairness import merit
from mmfl.objectives.auc import Auc
from mmfl.objectives.base import Better, Metric, Values
from mmfl.objectives.confusion import F1, BalancedAccuracy, Matthews, Precision, Recall
from mmfl.objectives.losses import Loss
from mmfl.objectives.means import (
    AbsoluteError,
    Accuracy,
    BinaryAccuracy,
    Explained,
    LossItself,
    SquaredError,
    TopK,
)
from mmfl.objectives.perplexity import Perplexity
from mmfl.objectives.returned import check_one_number_each

if TYPE_CHECKING:
    from mmfl.data import Arrays

__all__ = ["METRICS", "OwnMetric", "best_value", "describe_merits", "find_merit", "refuse_target"]

_LEAST, _MOST = -math.inf, math.inf


@dataclass(frozen=True)
class OwnMetric:
    """A user's function: outputs, targets -> the batch's mean, or one number per example.

    Its options are the function's keywords, but `better` ("higher" or "lower") and `bounds` ([low,
    high] of an example's value), which are the metric's own.
    """

    function: OwnFunction

    def __post_init__(self) -> None:
        better = self.function.options.get("better", "higher")
        if better not in ("higher", "lower"):
            raise problem(f'must be "higher" or "lower", got {short(better)}', "better")
        low_high = self.function.options.get("bounds", [_LEAST, _MOST])
        numbers = isinstance(low_high, list | tuple) and [*map(type, low_high)]
        if not numbers or len(numbers) != 2 or not {*numbers} <= {int, float}:
            raise problem(f"must be two numbers, got {short(low_high)}", "bounds")
        if not low_high[0] < low_high[1]:
            raise problem(f"must be [low, high] with low < high, got {short(low_high)}", "bounds")

    @property
    def better(self) -> Better:
        """As the option says."""
        return "lower" if self.function.options.get("better") == "lower" else "higher"

    @property
    def bounds(self) -> tuple[float, float]:
        """As the option says."""
        low, high = self.function.options.get("bounds", (_LEAST, _MOST))
        return float(low), float(high)

    def on(self, data: Arrays, loss: Loss) -> Values:
        """What it returns."""
        own = {k: v for k, v in self.function.options.items() if k not in ("better", "bounds")}
        call = OwnFunction(self.function.path, own)
        return lambda outputs, targets: check_one_number_each(
            call(outputs, targets), len(targets), call
        )


def best_value(metric: Metric) -> float:
    """The best value that a metric can have."""
    low, high = metric.bounds
    return high if metric.better == "higher" else low


def refuse_target(metric: Metric, target: float) -> str:
    """The rule that a target breaks because no model can reach it; "" if it breaks none."""
    best, higher = best_value(metric), metric.better == "higher"
    out_of_reach = target > best if higher else target < best
    return f"must be at {'most' if higher else 'least'} {best:g}" if out_of_reach else ""


def find_merit(kind: str, better: str) -> Callable[[Any], Any]:
    """From a metric's value (or an array of them) to a number where more is better.

    Args:
        kind: The metric's, as stored runs have it too: nothing is imported for it.
        better: Whether a "higher" or a "lower" value is better.
    """
    own = getattr(METRICS.table.get(kind), "merit", None)
    return partial(merit, better=better) if own is None else own


def describe_merits(metrics: Mapping[str, tuple[str, str]]) -> str:
    """How `find_merit` counts these tasks, as a clause; "" if it takes all values as they are.

    Args:
        metrics: By task, the metric's kind and better, as in `find_merit`.
    """
    by_rule: dict[str, list[str]] = {}
    for task, (kind, better) in metrics.items():
        own = METRICS.table.get(kind)
        if better == "lower":
            rule = getattr(own, "merit_rule", f"1 - {'its metric' if own is None else kind}")
            by_rule.setdefault(rule, []).append(task)
    return "; ".join(
        f"{tasks[0]} counts as {rule}"
        if len(tasks) == 1
        else f"{' and '.join(tasks) if len(tasks) < 4 else f'{len(tasks)} tasks'} count as {rule}"
        for rule, tasks in by_rule.items()
    )


METRICS = Family(
    name="metric",
    table={
        "accuracy": Accuracy,
        "auc": Auc,
        "balanced_accuracy": BalancedAccuracy,
        "binary_accuracy": BinaryAccuracy,
        "f1": F1,
        "loss": LossItself,
        "mae": AbsoluteError,
        "matthews": Matthews,
        "mse": SquaredError,
        "perplexity": Perplexity,
        "precision": Precision,
        "r2": Explained,
        "recall": Recall,
        "top_k": TopK,
    },
    needs=("on", "better", "bounds"),
    function=OwnMetric,
    own="a metric is a function of outputs and targets (docs/how-to/write-a-loss.md)",
)
