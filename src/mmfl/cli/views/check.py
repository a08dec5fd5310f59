"""What ``mmfl check`` says about each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mmfl.errors import plural
from mmfl.objectives import METRICS
from mmfl.runs import TaskTrial

if TYPE_CHECKING:
    from mmfl.experiment import Task

__all__ = ["describe_trial"]


def describe_trial(task: Task, trial: TaskTrial) -> list[str]:
    """The lines about a task.

    Args:
        task: The task, resolved.
        trial: What was found.
    """
    tensors = plural(trial.tensors, "tensor")
    lines = [f"task {task.name}: {plural(trial.weights, 'weight')} in {tensors}"]
    if not len(trial.sizes):
        return [*lines, f"  none of {plural(trial.idle, 'client')} holds data"]
    least, median, most = (f"{size:,.10g}" for size in np.percentile(trial.sizes, (0, 50, 100)))
    others = f"; {plural(trial.idle, 'other')} hold none" if trial.idle else ""
    who = f"{plural(len(trial.sizes), 'client')}{others}"
    lines.append(f"  examples per client: minimum {least}, median {median}, maximum {most} ({who})")
    name, meaning = "target skew", "share of the targets' variance that lies between clients"
    if trial.classes:
        name, meaning = (
            "label skew",
            "share of labels to change until all clients have the same mix",
        )
    lines.append(f"  {name} {trial.skew:.2f} ({trial.chance:.2f} by chance): {meaning}")
    shape = " x ".join(map(str, trial.batch))
    lines.append(f"  one step of training on a batch of {shape}: loss {trial.loss:.3g}")
    if trial.measured is not None:
        seen = trial.measured
        metric = METRICS.kind_of(task.metric).rpartition(":")[2]
        lines.append(
            f"  evaluation of {plural(seen.examples, 'test example')}: loss {seen.loss:.3g}, "
            f"{metric} {seen.metric:.3g}"
        )
    return lines
