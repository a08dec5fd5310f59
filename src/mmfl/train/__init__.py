"""Local training with torch: kernels, the resident network, and the trainer that workers run."""

from mmfl.train.device import DeviceLostError
from mmfl.train.numerics import numerics
from mmfl.train.trainer import Trainer

__all__ = ["DeviceLostError", "Trainer", "numerics"]
