"""A laboratory: strongly convex tasks with known constants, run through the real round loop.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning", the section
"Convergence Guarantees": its bounds beside the errors that they are about; docs/laboratory.md.
"""

from __future__ import annotations

from mmfl.laboratory.logistic import Logistic
from mmfl.laboratory.measure import Course, Sample, Walk, gathered, measure, walk
from mmfl.laboratory.problem import Problem, TheOutputs
from mmfl.laboratory.quadratic import Quadratic
from mmfl.laboratory.setting import Setting

__all__ = [
    "Course",
    "Logistic",
    "Problem",
    "Quadratic",
    "Sample",
    "Setting",
    "TheOutputs",
    "Walk",
    "gathered",
    "measure",
    "walk",
]
