"""Many runs: variants of an experiment over seeds, several at a time; what is finished is kept."""

from mmfl.sweeps.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
