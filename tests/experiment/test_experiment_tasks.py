"""A task's own local training, and sequences of `--set`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given

from mmfl.allocate import FedFair, Uniform
from mmfl.data import Npz, Synthetic
from mmfl.errors import ConfigError
from mmfl.experiment import (
    Experiment,
    Inverse,
    LocalOverride,
    LocalTraining,
    Task,
    check_experiment,
)
from mmfl.models import Mlp
from support.helpers import DESIGN, LEAST, SECOND_TASK, made, one_line, refused
from support.strategies import settings_of_local

# A task's own local training


def test_a_tasks_steps_replace_epochs_and_the_reverse() -> None:
    training = made("tasks.a.steps=20").training("a")
    assert (training.epochs, training.steps) == (None, 20)
    training = made("local.steps=20", "tasks.a.epochs=2").training("a")
    assert (training.epochs, training.steps) == (2, None)


def test_a_task_overrides_only_its_own_keys() -> None:
    experiment = made(
        "local.momentum=0.5",
        "tasks.a.lr={kind='inverse', mu=0.1, gamma=8.0}",
        "tasks.a.local.weight_decay=0",
        "tasks.a.local.remainder=drop",
        text=LEAST + SECOND_TASK,
    )
    assert experiment.training("b") == experiment.local
    assert experiment.training("a") == LocalTraining(
        epochs=5, lr=Inverse(0.1, 8.0), momentum=0.5, weight_decay=0.0, remainder="drop"
    )


def test_work_takes_the_rate_of_its_round() -> None:
    training = made("tasks.a.lr={kind='inverse', mu=0.5, gamma=8.0}", "tasks.a.steps=3").training(
        "a"
    )
    assert training.work(0).lr == pytest.approx(1 / 4)
    assert training.work(2).lr == pytest.approx(1 / 5)
    assert (training.work(2).epochs, training.work(2).steps) == (None, 3)
    assert made("local.lr=0.3").training("a").work(99).lr == 0.3


@given(settings_of_local)
def test_flat_keys_mean_the_same_as_keys_in_local(own: dict[str, Any]) -> None:
    assert Task("a", "mnist", **own) == Task("a", "mnist", local=LocalOverride(**own))


@pytest.mark.parametrize("key", ["steps=3", "lr=0.1", "remainder='drop'"])
def test_a_key_both_in_the_task_and_in_its_local_is_refused(key: str) -> None:
    text = LEAST.replace('name = "a"', f'name = "a"\n{key}\nlocal = {{ {key} }}')
    name = key.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^tasks\[0\]: {name} is set both"):
        Experiment.from_toml(text)
    with pytest.raises(ConfigError, match=rf"^tasks\[0\]: {name} is set both"):
        Experiment.from_toml(text, sets=["tasks.a.lr=0.1"])


def test_a_flat_set_wins_over_the_files_own_wherever_that_stands() -> None:
    for own in ("lr = 0.5", "local = { lr = 0.5 }"):
        text = LEAST.replace('name = "a"', f'name = "a"\n{own}')
        made = Experiment.from_toml(text, sets=["tasks.a.lr=0.1"])
        assert made.training("a").lr.rate(0) == 0.1


def test_epochs_and_steps_in_one_task_are_refused() -> None:
    message = refused("tasks.a.steps=3", "tasks.a.epochs=3")
    assert message.startswith("tasks[0]")
    assert "epochs or steps, not both" in message


@pytest.mark.parametrize("value", ["3", "x", "[]"])
def test_a_tasks_local_must_be_a_table(value: str) -> None:
    assert refused(f"tasks.a.local={value}").startswith("tasks[0].local must")
    inline = {"name": "a", "dataset": "x", "lr": 0.1, "local": value}
    with pytest.raises(ConfigError, match=r"^tasks\[0\]: local must be a table"):
        Experiment.from_dict({"rounds": 1, "clients": {"count": 1}, "tasks": [inline]})


def test_an_override_can_be_replaced_key_by_key() -> None:
    changed = dataclasses.replace(LocalOverride(steps=2), momentum=0.5)
    assert changed == LocalOverride(steps=2, momentum=0.5)


# Targets


@pytest.mark.parametrize(
    ("sets", "rule"),
    [
        (["tasks.a.target=90"], "at most 1, the best that its metric can be, got 90"),
        (["tasks.a.target=0.5", "tasks.a.metric=perplexity"], "at least 1, the best that its"),
        (["tasks.a.target=-0.1", "tasks.a.metric=mae"], "at least 0, the best that its"),
    ],
)
def test_a_target_that_no_model_can_reach_is_refused(sets: list[str], rule: str) -> None:
    said = one_line(ConfigError, lambda: check_experiment(made(*sets)))
    assert said.startswith(f"task 'a': target must be {rule}")


@pytest.mark.parametrize(
    "sets",
    [
        ["tasks.a.target=1.0"],
        ["tasks.a.target=90", "tasks.a.metric=perplexity"],
        ["tasks.a.target=90", "tasks.a.metric=loss"],
        ["tasks.a.target=-7", "tasks.a.metric=r2"],
    ],
)
def test_any_other_target_is_taken(sets: list[str]) -> None:
    check_experiment(made(*sets))


# Sequences of --set


def test_sets_apply_in_order() -> None:
    assert made("seed=1", "seed=2").seed == 2
    assert made("allocator=fed_fair", "allocator.alpha=inf").allocator == FedFair(math.inf)
    assert made("allocator.kind=fed_fair", "allocator.alpha=5").allocator == FedFair(5.0)
    alpha_then_kind = ["allocator.alpha=5", "allocator.kind=uniform", "allocator.floor=2"]
    assert made(*alpha_then_kind, text=DESIGN).allocator == Uniform(floor=2)
    same_kind = ["allocator.alpha=5", "allocator.kind=fed_fair"]
    assert made(*same_kind, text=DESIGN).allocator == FedFair(5.0)


def test_sets_reach_every_level() -> None:
    experiment = made(
        "clients.active=[1, 0.5, 0, 1]",
        "tasks.a.steps=7",
        "tasks.1.model={kind='mlp', hidden=[3, 4]}",
        "tasks.b.dataset.classes=9",
        "tasks.a.dataset.kind=npz",
        "tasks.a.dataset.path=data/x.npz",
        text=LEAST + SECOND_TASK,
    )
    assert experiment.clients.active == (1.0, 0.5, 0.0, 1.0)
    assert experiment.task("a").local == LocalOverride(steps=7)
    assert experiment.task("a").dataset == Npz("data/x.npz")
    assert experiment.task("b").model == Mlp(hidden=(3, 4))
    assert experiment.task("b").dataset == Synthetic(classes=9)
