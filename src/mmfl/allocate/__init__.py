"""Who trains what: allocation rules, free of torch, usable inside any framework.

`ALLOCATORS` is the family's table. `assign` is the paper's rule as one call for other frameworks.
"""

from __future__ import annotations

from mmfl.allocate.base import Allocator, Assignment, Assignments, View, first_fault
from mmfl.allocate.rules.equal_bounds import EqualBounds
from mmfl.allocate.rules.exponential_weights import ExponentialWeights
from mmfl.allocate.rules.fed_fair import FedFair, allocation_probabilities
from mmfl.allocate.rules.foresight import Foresight
from mmfl.allocate.rules.job_queues import JobQueues
from mmfl.allocate.rules.lvr import Lvr
from mmfl.allocate.rules.mfa_round_robin import MfaRoundRobin
from mmfl.allocate.rules.optimus import Optimus
from mmfl.allocate.rules.round_robin import RoundRobin
from mmfl.allocate.rules.sequential import Sequential
from mmfl.allocate.rules.slaq import Slaq
from mmfl.allocate.rules.stale_vr import StaleVr
from mmfl.allocate.rules.themis import Themis
from mmfl.allocate.rules.tilted import Tilted
from mmfl.allocate.rules.ucb import Ucb
from mmfl.allocate.rules.uniform import Uniform
from mmfl.allocate.standalone import assign
from mmfl.config import Family

__all__ = [
    "ALLOCATORS",
    "Allocator",
    "Assignment",
    "Assignments",
    "EqualBounds",
    "ExponentialWeights",
    "FedFair",
    "Foresight",
    "JobQueues",
    "Lvr",
    "MfaRoundRobin",
    "Optimus",
    "RoundRobin",
    "Sequential",
    "Slaq",
    "StaleVr",
    "Themis",
    "Tilted",
    "Ucb",
    "Uniform",
    "View",
    "allocation_probabilities",
    "assign",
    "first_fault",
]

ALLOCATORS = Family(
    name="allocator",
    table={
        "equal_bounds": EqualBounds,
        "exponential_weights": ExponentialWeights,
        "fed_fair": FedFair,
        "foresight": Foresight,
        "job_queues": JobQueues,
        "lvr": Lvr,
        "mfa_round_robin": MfaRoundRobin,
        "optimus": Optimus,
        "round_robin": RoundRobin,
        "sequential": Sequential,
        "slaq": Slaq,
        "stale_vr": StaleVr,
        "themis": Themis,
        "tilted": Tilted,
        "ucb": Ucb,
        "uniform": Uniform,
    },
    needs=("allocate",),
    default="fed_fair",
)
