"""Strongly convex tasks with known constants, run through the real round loop.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning", the section
"Convergence Guarantees": its bounds next to the errors that they are about. See
docs/explanation/convergence.md.
"""

from __future__ import annotations

from mmfl.convergence.auctions import AuctionSetting
from mmfl.convergence.logistic import Logistic
from mmfl.convergence.measure import (
    RunTrace,
    Sample,
    Trajectory,
    WeightPath,
    collect_trajectories,
    follow_weights,
    measure,
    trace_run,
)
from mmfl.convergence.problem import Problem, TheOutputs
from mmfl.convergence.quadratic import Quadratic
from mmfl.convergence.recruited import (
    RecruitedRun,
    RecruitedTrajectory,
    collect_recruited,
    measure_recruited,
    trace_recruited,
)
from mmfl.convergence.setting import Setting

__all__ = [
    "AuctionSetting",
    "Logistic",
    "Problem",
    "Quadratic",
    "RecruitedRun",
    "RecruitedTrajectory",
    "RunTrace",
    "Sample",
    "Setting",
    "TheOutputs",
    "Trajectory",
    "WeightPath",
    "collect_recruited",
    "collect_trajectories",
    "follow_weights",
    "measure",
    "measure_recruited",
    "trace_recruited",
    "trace_run",
]
