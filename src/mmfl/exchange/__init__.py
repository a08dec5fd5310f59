"""What the server and its trainers exchange: weights, jobs, updates, evaluations."""

from mmfl.exchange.messages import (
    CHUNK,
    DONE,
    Address,
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    LocalWork,
    PartialSum,
    Split,
)
from mmfl.exchange.params import Flat, Layout, Params
from mmfl.exchange.shapes import Shape

__all__ = [
    "CHUNK",
    "DONE",
    "Address",
    "ClientFailure",
    "ClientUpdate",
    "Evaluation",
    "EvaluationFailure",
    "Flat",
    "Job",
    "Layout",
    "LocalWork",
    "Params",
    "PartialSum",
    "Shape",
    "Split",
]
