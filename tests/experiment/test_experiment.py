"""The whole configuration: what it reads, what it refuses and how, and that nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.aggregate import Mean
from mmfl.allocate import FedFair
from mmfl.config import dump
from mmfl.data import HalfClasses, Named
from mmfl.experiment import (
    Clients,
    Constant,
    Evaluate,
    Experiment,
    Inline,
    Local,
    LocalOverride,
    LocalTraining,
    Task,
    differences,
)
from mmfl.models import Cnn
from mmfl.objectives import Error
from support.helpers import DESIGN, LEAST, SECOND_TASK, made, refused
from support.strategies import experiments

# Reading


def test_the_designs_example_loads() -> None:
    assert Experiment.from_toml(DESIGN) == Experiment(
        rounds=60,
        clients=Clients(count=40, active=0.5),
        tasks=(
            Task(
                name="fashion",
                dataset=Named("fashion_mnist"),
                model=Cnn(),
                partition=HalfClasses(share=0.5, points=(150, 250), overlap=False),
            ),
        ),
        seed=0,
        precision="float32",
        score=Error(),
        score_split="validation",
        local=LocalTraining(
            epochs=5, batch_size=32, lr=Constant(0.01), momentum=0.9, weight_decay=1e-4
        ),
        allocator=FedFair(alpha=3.0),
        aggregator=Mean(),
        evaluate=Evaluate(every=1),
        engine=Local(workers="auto"),
    )


def test_what_is_left_out_has_the_designs_defaults() -> None:
    experiment = made()
    assert experiment.seed == 0
    assert experiment.allocator == FedFair(alpha=3.0)
    assert experiment.aggregator == Mean()
    assert experiment.score == Error()
    assert (experiment.score_split, experiment.score_source) == ("validation", "server")
    assert experiment.validation == 0.1
    assert experiment.engine == Local(workers="auto")
    assert experiment.training("a").epochs == 5
    assert experiment.training("a").steps is None


def test_a_file_reads_like_its_text(tmp_path: Path) -> None:
    path = tmp_path / "fair.toml"
    path.write_text(DESIGN, encoding="utf-8")
    assert Experiment.load(path) == Experiment.load(str(path)) == Experiment.from_toml(DESIGN)
    assert Experiment.load(path, sets=["seed=3"]).seed == 3


@pytest.mark.parametrize(
    ("source", "split", "holds"),
    [
        ("server", "validation", True),
        ("server", "test", False),
        ("clients", "validation", False),
        ("clients", "test", False),
    ],
)
def test_validation_is_held_only_where_it_is_used(source: str, split: str, holds: bool) -> None:
    experiment = made(f"score_source={source}", f"score_split={split}")
    assert experiment.holds_validation is holds


# Round trips


@given(experiments())
def test_toml_loses_nothing(experiment: Experiment) -> None:
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()
    assert again.digest == experiment.digest
    assert hash(again) == hash(experiment)


@given(experiments())
def test_toml_loses_nothing_of_a_resolved_experiment(experiment: Experiment) -> None:
    resolved = experiment.resolved()
    assert Experiment.from_toml(resolved.to_toml()) == resolved
    assert resolved.resolved() == resolved
    assert resolved.kernel in {"fast", "reference"}
    assert {task.kernel for task in resolved.tasks} <= {None, "reference", "fast", "batched"}


@given(experiments())
def test_resolving_changes_only_what_was_automatic(experiment: Experiment) -> None:
    resolved = experiment.resolved()
    tasks = tuple(
        dataclasses.replace(new, kernel=old.kernel, metric=old.metric)
        for new, old in zip(resolved.tasks, experiment.tasks, strict=True)
    )
    assert dataclasses.replace(resolved, kernel=experiment.kernel, tasks=tasks) == experiment


@given(experiments())
def test_dictionaries_and_pickle_lose_nothing(experiment: Experiment) -> None:
    assert Experiment.from_dict(dump(experiment)) == experiment
    assert pickle.loads(pickle.dumps(experiment)) == experiment


@pytest.mark.parametrize("name", ["synthetic", "npz", "named", "own:thing"])
def test_a_data_set_named_like_a_kind_comes_back(name: str) -> None:
    experiment = made("tasks.a.dataset.kind=named", f"tasks.a.dataset.name={name}")
    assert experiment.tasks[0].dataset == Named(name)
    assert Experiment.from_toml(experiment.to_toml()) == experiment


# Digest


@given(experiments(), st.sampled_from([Inline(), Local(1), Local(7, timeout=3.0)]))
def test_the_engine_is_not_in_the_digest(experiment: Experiment, engine: Any) -> None:
    assert dataclasses.replace(experiment, engine=engine).digest == experiment.digest


def test_equal_experiments_have_equal_digests() -> None:
    one = made("clients.active=1", "allocator=fed_fair", "tasks.a.partition=auto", "tasks.a.lr=1")
    other = made("clients.active=1.0", "allocator.kind=fed_fair", "tasks.a.local.lr=1.0")
    assert one == other
    assert one.digest == other.digest
    assert len(one.digest) == 64


def test_both_zeros_have_one_digest() -> None:
    one, other = made("local.weight_decay=0.0"), made("local.weight_decay=-0.0")
    assert one == other
    assert one.digest == other.digest


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "rounds=3",
        "clients.count=5",
        "clients.active=0.5",
        "precision=bf16",
        "score=loss",
        "score_split=test",
        "score_source=clients",
        "score_clients=2",
        "validation=0.2",
        "local.lr=0.02",
        "allocator=uniform",
        "checks.max_norm=inf",
        "evaluate.batch_size=7",
        "tasks.a.name=b",
        "tasks.a.dataset=emnist",
        "tasks.a.model=cnn",
        "tasks.a.partition=half_classes",
        "tasks.a.steps=5",
        "tasks.a.weight=2",
    ],
)
def test_what_decides_the_result_is_in_the_digest(change: str) -> None:
    assert made(change).digest != made().digest


@pytest.mark.parametrize(
    ("text", "digest", "lineage"),
    [
        (LEAST, "8c44b30a157433d4", "69a23a8deb7ad751"),
        (LEAST + SECOND_TASK, "93e96d3a8ef3d5e8", "03380dbb81f18b59"),
        (DESIGN, "b6d0a20c544d4cdd", "64c9f88fab354241"),
    ],
    ids=["least", "two tasks", "design"],
)
def test_keys_that_are_newer_than_stored_runs_do_not_change_their_digests(text, digest, lineage):
    experiment = Experiment.from_toml(text)
    assert experiment.digest.startswith(digest)
    assert experiment.resolved().lineage.startswith(lineage)


def test_a_weight_of_one_is_no_weight_and_is_not_written() -> None:
    one = made("tasks.a.weight=1")
    assert one == made()
    assert one.digest == made().digest
    assert "weight " not in one.to_toml()
    two = made("tasks.a.weight=2")
    assert two.tasks[0].weight == 2.0
    assert "weight = 2.0" in two.to_toml()
    assert Experiment.from_toml(two.to_toml()) == two
    assert differences(dump(made()), dump(two)) == {"tasks.a.weight": (None, 2.0)}
    assert two.engine_table == made().engine_table, "an engine does not depend on it"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0", "must be greater than 0, got 0"),
        ("-1.5", "must be greater than 0, got -1.5"),
        ("nan", "must be a finite number"),
        ("inf", "must be a finite number"),
        ("-inf", "must be"),
        ("'2'", "must be a number, got '2'"),
        ("true", "must be a number, got True"),
        ("1e400", "must be a finite number"),
    ],
)
def test_a_weight_is_a_finite_number_above_0(value: str, rule: str) -> None:
    assert refused(f"tasks.a.weight={value}").startswith(f"tasks[0].weight {rule}")


# JSON Schema


def test_the_schema_is_json_and_knows_every_key() -> None:
    schema = json.loads(json.dumps(Experiment.json_schema(), allow_nan=False))
    assert set(schema["properties"]) == {field.name for field in dataclasses.fields(Experiment)}
    assert schema["required"] == ["rounds", "clients", "tasks"]
    assert schema["additionalProperties"] is False


def test_the_schema_knows_every_kind() -> None:
    text = json.dumps(Experiment.json_schema())
    for kind in ["fed_fair", "uniform", "mean", "local", "cnn", "half_classes", "npz", "inverse"]:
        assert f'"const": "{kind}"' in text


def test_the_schema_lets_a_task_have_every_key_of_local() -> None:
    task = Experiment.json_schema()["$defs"]["Task"]
    own = {field.name for field in dataclasses.fields(LocalOverride)}
    assert task.get("additionalProperties") is not False or own <= set(task["properties"])
