"""Many runs: variants of an experiment over seeds, several at a time; finished runs are kept."""

from mmfl.comparison.comparison import Comparison, compare, slugify
from mmfl.comparison.planned import (
    Event,
    Failed,
    OtherRunError,
    PlannedRun,
    Step,
    refuse_other_seeds,
)
from mmfl.comparison.pool import Jobs
from mmfl.comparison.variants import read_jobs, read_seeds, read_vary

__all__ = [
    "Comparison",
    "Event",
    "Failed",
    "Jobs",
    "OtherRunError",
    "PlannedRun",
    "Step",
    "compare",
    "read_jobs",
    "read_seeds",
    "read_vary",
    "refuse_other_seeds",
    "slugify",
]
