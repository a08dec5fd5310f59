"""Local training with torch: kernels, the resident network, and the trainer that workers run."""

from mmfl.train.device import DeviceLostError
from mmfl.train.numerics import numerics
from mmfl.train.plain_source import read_state, write_source
from mmfl.train.trained_model import TrainedModel, build_model
from mmfl.train.trainer import Trainer

__all__ = [
    "DeviceLostError",
    "TrainedModel",
    "Trainer",
    "build_model",
    "numerics",
    "read_state",
    "write_source",
]
