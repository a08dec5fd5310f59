"""Strongly convex tasks with known constants, run through the real round loop.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning", the section
"Convergence Guarantees": its bounds next to the errors that they are about. See
docs/explanation/convergence.md.
"""

from __future__ import annotations

from mmfl.convergence.logistic import Logistic
from mmfl.convergence.measure import (
    RunTrace,
    Sample,
    Trajectory,
    collect_trajectories,
    measure,
    trace_run,
)
from mmfl.convergence.problem import Problem, TheOutputs
from mmfl.convergence.quadratic import Quadratic
from mmfl.convergence.setting import Setting

__all__ = [
    "Logistic",
    "Problem",
    "Quadratic",
    "RunTrace",
    "Sample",
    "Setting",
    "TheOutputs",
    "Trajectory",
    "collect_trajectories",
    "measure",
    "trace_run",
]
