"""What a task is judged by, and whether it can get as far as it is to."""

from __future__ import annotations

from pydantic_core import PydanticCustomError

from mmfl.config import imports_allowed
from mmfl.errors import ConfigError, text_of
from mmfl.experiment.parts import Task
from mmfl.objectives import METRICS, Metric, refuse_target
from mmfl.system.user_code import describe_part, guard_part

__all__ = ["check_target", "find_metric"]


def find_metric(task: Task) -> Metric:
    """What a task is judged by: its metric, or that of its loss."""
    if task.metric is not None:
        return task.metric
    try:
        with guard_part("loss", task.loss, task=task.name, kind=ConfigError):
            kind = task.loss.metric
        metric: Metric = METRICS.parse(kind)
    except PydanticCustomError as error:
        said = f"its loss {describe_part(task.loss)} names a metric that cannot be used"
        raise ConfigError(f"task {task.name!r}: {said}: {text_of(error)}") from error.__cause__
    return metric


def check_target(task: Task) -> None:
    """Refuse a target that no model can reach, such as 90 where 0.9 was meant."""
    if task.target is None:
        return
    with imports_allowed(True):  # a user's loss, imported already, names its metric
        metric = find_metric(task)
    with guard_part("metric", metric, task=task.name, kind=ConfigError):
        rule = refuse_target(metric, task.target)
    if rule:
        said = f"target {rule}, the best that its metric can be, got {task.target:g}"
        raise ConfigError(f"task {task.name!r}: {said}")
