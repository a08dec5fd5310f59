"""The JSON Schema accepts what the parser accepts, and refuses what it refuses, value by value."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from pydantic_core import PydanticCustomError

from mmfl.aggregate import AGGREGATORS, Checks
from mmfl.allocate import ALLOCATORS
from mmfl.config import Family, parse, read_toml
from mmfl.data import DATASETS, NORMALIZATIONS, PARTITIONS, Augment
from mmfl.errors import ConfigError
from mmfl.experiment import (
    BIDS,
    ENGINES,
    SCHEDULES,
    Checkpoints,
    Clients,
    Evaluate,
    Experiment,
    LocalOverride,
    LocalTraining,
    RecruitmentSettings,
    Task,
)
from mmfl.faults import MISBEHAVIOURS, SPEEDS, Faults, Quarantine
from mmfl.market import MECHANISMS
from mmfl.market.bids_io import DISTRIBUTIONS
from mmfl.models import MODELS
from mmfl.objectives import LOSSES, METRICS, SCORES
from mmfl.optimizers import OPTIMIZERS
from support.helpers import LEAST

FAMILIES: list[Family] = [
    *(AGGREGATORS, ALLOCATORS, BIDS, DATASETS, DISTRIBUTIONS, ENGINES, LOSSES, MECHANISMS),
    *(METRICS, MISBEHAVIOURS, MODELS, NORMALIZATIONS, OPTIMIZERS, PARTITIONS, SCHEDULES),
    *(SCORES, SPEEDS),
    *(dataclasses.replace(f, optional=True) for f in (METRICS, OPTIMIZERS, SCHEDULES, SPEEDS)),
]
PARTS: dict[type[Any], dict[str, Any]] = {
    Experiment: read_toml(LEAST),
    Clients: {"count": 4},
    Task: {"name": "a", "dataset": "mnist"},
    RecruitmentSettings: {"mechanism": {"kind": "gmm_fair", "budget": 0.5}, "bids": "uniform"},
    **{cls: {} for cls in (Augment, Checkpoints, Checks, Evaluate, Faults, LocalOverride)},
    **{cls: {} for cls in (LocalTraining, Quarantine)},
}
VALUES: list[Any] = [
    *(0, 1, -1, 2, 7, 0.5, -0.5, 1.5, 1e40, 2**31, 2**63, -(2**63) - 1, math.inf, -math.inf),
    *("x", "", "auto", "a:b", "a.b:C.d", "mean", "x.CSV", "ä", "-x", True, False, None),
    *([], [1], [0.5], [1, 2], [0, 0], [-1, 2], ["x"], [[1]], [0.5, 0, 1, 1], {}),
    *({"kind": "x"}, {"kind": "a:b", "c": 1}, {"kind": 3}, {"x": 1}),
]
NEEDED: dict[str, Any] = {  # by name, a value for a field that has none
    **{"a": 0.5, "b": 0.5, "mean": 0.5, "sd": 0.5, "budget": 0.5, "threshold": 0.5, "alpha": 0.5},
    **{"path": "x.csv", "name": "x", "mu": 0.5, "gamma": 0.5, "std": 0.5, "rate": 0.5, "norm": 0.5},
    **{"median": 0.5, "sigma": 0.5, "low": 0.1, "high": 0.5, "values": [0.5, 0.5, 0.5, 0.5]},
    **{"hash": "x", "kind": "sign_flip", "share": 0.5, "rounds_each": 1, "value": 0.1},
    "shape": [3],
}
BETWEEN_FIELDS = re.compile(
    r"low (must be (below|at most) high|<= high)|one (rate|chance) per client|needs a speed|"
    r"takes epochs or steps|needs a target in every task|must have a trim|low < high|not both|"
    r"needs bids|takes the bids from a file"
)


def wholes(value: Any) -> bool:
    """Whether a float in it is a whole number, which JSON does not tell from an integer."""
    if isinstance(value, dict | list):
        return any(map(wholes, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def accepted(act: Callable[[], object]) -> bool | None:
    """Whether the parser takes it; None if only several fields together are wrong."""
    try:
        act()
    except (ConfigError, PydanticCustomError) as error:
        if "would import code" in str(error) and not str(error).endswith(
            ("more error)", "more errors)")
        ):
            return True
        return None if BETWEEN_FIELDS.search(str(error)) else False
    return True


def compare(schema: dict[str, Any], values: list[Any], act: Callable[[Any], object]) -> int:
    checker = jsonschema.Draft202012Validator(schema)
    checked = 0
    for value in values:
        found = accepted(lambda value=value: act(value))
        if found is None or (not found and wholes(value)):
            continue
        assert checker.is_valid(value) == found, (value, found)
        checked += found
    return checked


def ways(family: Family) -> list[Any]:
    """Every kind, with and without `kind`, and with every value for every field."""
    found = [*VALUES, *family.table]
    if family.optional:  # that there may be none: the family itself is tried, too
        return found
    for kind, cls in family.table.items():
        fields = [field for field in dataclasses.fields(cls) if field.init]
        plain = {
            field.name: NEEDED[field.name]
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        found += [plain, {"kind": kind, **plain}, {"kind": kind, **plain, "zzz": 1}, {"kind": kind}]
        for field in fields:
            for value in VALUES:
                found.append({"kind": kind, **plain, field.name: value})
                if kind == family.default:
                    found.append({**plain, field.name: value})
    return found


@pytest.mark.parametrize(
    "family", FAMILIES, ids=lambda family: f"{family.name}{' or none' * family.optional}"
)
def test_a_family(family):
    schema = family.__get_pydantic_json_schema__(None, None)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert compare(schema, ways(family), family.parse) >= len(family.table)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_part(part):
    plain = PARTS[part]
    whole = Experiment.json_schema()
    own = {"$ref": f"#/$defs/{part.__name__}", "$defs": whole["$defs"]}
    schema = whole if part is Experiment else own
    keys = [field.name for field in dataclasses.fields(part)]
    values = [plain, plain | {"zzz": 1}]
    values += [plain | {key: value} for key in keys for value in VALUES]
    assert compare(schema, values, lambda value: parse(part, value)) > len(keys)


@pytest.mark.parametrize(
    "table",
    [
        {"engine": {"workers": 2}},
        {"allocator": {"alpha": 2.0}},
        {"allocator": {}},
        {"aggregator": {}},
        {"local": {"lr": {"kind": "inverse", "mu": 0.1, "gamma": 8.0}}},
    ],
)
def test_a_table_without_a_kind_is_of_the_usual_one(table):
    data = {**read_toml(LEAST), **table}
    Experiment.from_dict(data)
    jsonschema.Draft202012Validator(Experiment.json_schema()).validate(data)


def test_every_word_is_one_that_json_schema_knows():
    known = {*jsonschema.Draft202012Validator.VALIDATORS, "$defs", "default", "title"}
    known |= {"description", "then", "else"}

    def words(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(words, schema))
        if not isinstance(schema, dict):
            return set()
        found = set(schema)
        for key, inner in schema.items():
            names = key in ("properties", "$defs")
            if key not in ("default", "enum", "const", "required"):
                found |= set().union(*map(words, inner.values())) if names else words(inner)
        return found

    assert words(Experiment.json_schema()) - known == set()
