"""The whole configuration of a run: frozen, strict, TOML in and TOML out."""

from mmfl.experiment.checkpoints import Checkpoints
from mmfl.experiment.engines import ENGINES, Engine, EngineConfig, Ids, Inline, Local
from mmfl.experiment.experiment import Experiment
from mmfl.experiment.federation import Federation, SimulatedFederation, simulate
from mmfl.experiment.footprint import Weighed, job_needs, model_needs, turn_needs, worker_needs
from mmfl.experiment.loading import Shelf
from mmfl.experiment.parts import (
    Clients,
    Evaluate,
    Kernel,
    LocalOverride,
    LocalTraining,
    Task,
    fits_batched,
)
from mmfl.experiment.recruitment import BIDS, Recruiting
from mmfl.experiment.schedule import SCHEDULES, Constant, Inverse, Schedule

__all__ = [
    "BIDS",
    "ENGINES",
    "SCHEDULES",
    "Checkpoints",
    "Clients",
    "Constant",
    "Engine",
    "EngineConfig",
    "Evaluate",
    "Experiment",
    "Federation",
    "Ids",
    "Inline",
    "Inverse",
    "Kernel",
    "Local",
    "LocalOverride",
    "LocalTraining",
    "Recruiting",
    "Schedule",
    "Shelf",
    "SimulatedFederation",
    "Task",
    "Weighed",
    "fits_batched",
    "job_needs",
    "model_needs",
    "simulate",
    "turn_needs",
    "worker_needs",
]
