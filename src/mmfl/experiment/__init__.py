"""The whole configuration of a run: frozen, strict, TOML in and TOML out."""

from mmfl.experiment.availability import Availability
from mmfl.experiment.checkpoints import Checkpoints
from mmfl.experiment.description import ModelDescription, find_model_shape
from mmfl.experiment.engines import (
    ENGINES,
    Engine,
    EngineConfig,
    Flower,
    Ids,
    Inline,
    Local,
    Ray,
    guard_engine,
    open_engine,
    use_engine,
)
from mmfl.experiment.experiment import Experiment, check_experiment
from mmfl.experiment.federation import (
    Federation,
    SimulatedFederation,
    hold_shards,
    simulate,
)
from mmfl.experiment.footprint import ModelSize, job_needs, model_needs, turn_needs, worker_needs
from mmfl.experiment.identity import describe_change, differences
from mmfl.experiment.inputs import find_inputs
from mmfl.experiment.learning_rate import SCHEDULES, Constant, Inverse, Schedule
from mmfl.experiment.loading import DataCache
from mmfl.experiment.local_training import LocalOverride, LocalTraining
from mmfl.experiment.own_code import (
    find_own_code,
    has_own_code,
    hash_own_code,
    refuse_edited_code,
)
from mmfl.experiment.parts import (
    Clients,
    Evaluate,
    KernelName,
    Task,
)
from mmfl.experiment.recruitment import BIDS, RecruitmentSettings
from mmfl.experiment.stored import read_stored, read_table

__all__ = [
    "BIDS",
    "ENGINES",
    "SCHEDULES",
    "Availability",
    "Checkpoints",
    "Clients",
    "Constant",
    "DataCache",
    "Engine",
    "EngineConfig",
    "Evaluate",
    "Experiment",
    "Federation",
    "Flower",
    "Ids",
    "Inline",
    "Inverse",
    "KernelName",
    "Local",
    "LocalOverride",
    "LocalTraining",
    "ModelDescription",
    "ModelSize",
    "Ray",
    "RecruitmentSettings",
    "Schedule",
    "SimulatedFederation",
    "Task",
    "check_experiment",
    "describe_change",
    "differences",
    "find_inputs",
    "find_model_shape",
    "find_own_code",
    "guard_engine",
    "has_own_code",
    "hash_own_code",
    "hold_shards",
    "job_needs",
    "model_needs",
    "open_engine",
    "read_stored",
    "read_table",
    "refuse_edited_code",
    "simulate",
    "turn_needs",
    "use_engine",
    "worker_needs",
]
