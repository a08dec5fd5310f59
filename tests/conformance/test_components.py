"""Every member of every family is a value: frozen, comparable, printable, and it round-trips."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.config import Family
from mmfl.data import DATASETS, NORMALIZATIONS, PARTITIONS
from mmfl.experiment import ENGINES, SCHEDULES
from mmfl.faults import MISBEHAVIOURS, SPEEDS
from mmfl.market.bids_io import DISTRIBUTIONS
from mmfl.models import MODELS
from mmfl.objectives import LOSSES, METRICS, SCORES
from mmfl.optimizers import OPTIMIZERS

FAMILIES = [
    AGGREGATORS, ALLOCATORS, DATASETS, DISTRIBUTIONS, ENGINES, LOSSES, METRICS, MISBEHAVIOURS,
    MODELS, NORMALIZATIONS, OPTIMIZERS, PARTITIONS, SCHEDULES, SCORES, SPEEDS,
]  # fmt: skip
NEEDED = {
    "at_nodes": {"shape": [3]},
    "named": {"name": "x"},
    "csv": {"path": "x.csv"},
    "parquet": {"path": "x.parquet"},
    "image_folder": {"path": "pictures"},
    "npz": {"path": "x.npz"},
    "reduced": {"name": "x", "shrink": 2, "test": 5},
    "in_memory": {"hash": "ab" * 32},
    "inverse": {"mu": 1.0, "gamma": 8.0},
    "dirichlet": {"alpha": 0.5},
    "given": {"path": "x.npy"},
    "truncated_normal": {"mean": 0.5, "sd": 0.2},
    "beta": {"a": 2.0, "b": 5.0},
    "normalization given": {"mean": 0.5, "std": [0.5, 1]},
    "speed constant": {"rate": 5.0},
    "speed given": {"values": [5.0, 1.0]},
    "speed lognormal": {"median": 5.0, "sigma": 1.0},
    "speed uniform": {"low": 1.0, "high": 5.0},
}
MEMBERS = [(family, kind) for family in FAMILIES for kind in family.table]


def needed(family: Family, kind: str) -> dict[str, object]:
    return NEEDED.get(f"{family.name} {kind}", NEEDED.get(kind, {}))


@pytest.fixture(params=MEMBERS, ids=lambda member: f"{member[0].name}-{member[1]}")
def member(request) -> tuple[Family, str, object]:
    family, kind = request.param
    return family, kind, family.parse({"kind": kind, **needed(family, kind)})


def test_it_round_trips_through_plain_values(member):
    family, kind, value = member
    assert family.kind_of(value) == kind
    assert family.parse(family.dump(value)) == value
    assert family.parse(value) is value


def test_it_is_a_frozen_value(member):
    _, _, value = member
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert hash(value) == hash(copy.copy(value))
    assert type(value).__name__ in repr(value)
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_it_says_what_it_is_for_and_which_line_of_the_paper_where_there_is_one(member):
    _, _, value = member
    assert type(value).__doc__
    undocumented = [
        field.name
        for field in dataclasses.fields(value)
        if len(dataclasses.fields(value)) > 1 and f"{field.name}:" not in type(value).__doc__
    ]
    assert undocumented == []


def test_it_refuses_an_unknown_key_with_its_name(member):
    family, kind, _ = member
    with pytest.raises(Exception, match="is not a known key"):
        family.parse({"kind": kind, **needed(family, kind), "colour": "red"})
