"""Keys of local training that choose an optimizer, clip gradients and hold clients together."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import mmfl
from mmfl import Experiment
from mmfl.config import dump
from mmfl.errors import ConfigError, EngineError
from mmfl.experiment import Inline, Local, LocalOverride, LocalTraining
from mmfl.optimizers import Adam, Sgd
from support.helpers import LEAST, one_line


def made(*sets: str) -> Experiment:
    return Experiment.from_toml(LEAST, sets=sets, allow_imports=True)


def test_settings_that_are_not_used_leave_no_trace():
    """Digests of experiments that were made before these keys existed stay the same."""
    plain = made()
    assert dump(LocalTraining()).keys() == {
        *("epochs", "batch_size", "lr", "momentum", "weight_decay", "remainder")
    }
    assert dump(LocalTraining())["momentum"] == 0.9
    assert dump(LocalTraining())["weight_decay"] == 1e-4
    same = made("local.optimizer=sgd", "local.prox=0.0", "tasks.a.local={}")
    assert same.digest == plain.digest
    assert made("local.prox=0.1").digest != plain.digest
    assert made("local.clip_norm=1.0").digest != plain.digest
    assert made("local.optimizer=adam").digest != plain.digest


def test_a_task_has_its_own():
    changed = made("local.optimizer=adam", "tasks.a.optimizer=sgd", "tasks.a.prox=0.5")
    local = changed.training("a")
    assert (local.optimizer, local.momentum, local.weight_decay) == (Sgd(), 0.9, 1e-4)
    assert local.work(0).prox == 0.5
    changed = made("local.momentum=0.5", "tasks.a.optimizer={kind='adam',weight_decay=0.1}")
    local = changed.training("a")
    assert local.optimizer == Adam(weight_decay=0.1)
    assert local.work(0).momentum == local.work(0).weight_decay == 0.0
    assert Experiment.from_toml(changed.to_toml()) == changed


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["local.optimizer=lbfgs"], "several times in a step"),
        (["local.optimizer=sparse_adam"], "use \"adam\""),
        (["local.optimizer=adm"], "did you mean 'adam'"),
        (["local.optimizer=adam", "local.momentum=0.9"], "momentum is for optimizer = \"sgd\""),
        (["local.optimizer=adam", "tasks.a.weight_decay=0.9"], "task 'a': weight_decay is for"),
        (["tasks.a.optimizer=adam", "tasks.a.momentum=0.9"], "momentum is for optimizer"),
        (["local.optimizer={kind='adam',betas=[0.9,1.0]}"], "betas[1] must be less than 1"),
        (["local.clip_norm=0"], "local.clip_norm must be greater than 0"),
        (["local.prox=-1"], "local.prox must be greater than or equal to 0"),
        (["tasks.a.optimizer=adam", "kernel=batched"], "cross_entropy, sgd, float32"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(sets, said):
    assert said in one_line(ConfigError, lambda: made(*sets))


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("torch.optim:LBFGS", "LBFGS needs a closure"),
        ("torch.optim:SparseAdam", "only sparse gradients"),
        ("{kind='torch.optim:Adam',betas=[2.0,3.0]}", "Invalid beta parameter"),
        ("{kind='torch.optim:Adam',colour=1}", "unexpected keyword argument 'colour'"),
        ("builtins:len", "len() takes no keyword arguments|takes exactly one argument"),
    ],
)
def test_what_cannot_be_built_is_found_before_training(optimizer, said):
    experiment = made("tasks.a.dataset=synthetic", f"local.optimizer={optimizer}", "engine=inline")
    found = one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    assert found.startswith("task 'a': its optimizer cannot be used: ")
    assert any(part in found for part in said.split("|"))


def run(engine, **local):
    experiment = made("tasks.a.dataset=synthetic", "rounds=2", "clients=4")
    task = replace(experiment.tasks[0], local=LocalOverride(steps=3, lr=0.01, **local))
    *_, (state, record) = mmfl.rounds(replace(experiment, tasks=(task,), engine=engine))
    assert record.failures == ()
    return state


def test_your_own_is_sent_to_the_workers():
    def build(parameters, lr):
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)

    given = [
        {"kind": "adamw", "weight_decay": 0.1},
        functools.partial(torch.optim.AdamW, weight_decay=0.1),
        {"kind": torch.optim.AdamW, "weight_decay": 0.1},
        build,
    ]
    runs = [run(Inline(), optimizer=one) for one in given]
    for other in runs[1:]:  # torch's default is not the fused implementation
        assert np.allclose(runs[0].params["a"].flat, other.params["a"].flat, atol=1e-6)
    assert run(Local(workers=1), optimizer=build).fingerprint == runs[-1].fingerprint


def test_an_optimizer_that_raises_costs_the_turn_and_names_its_line():
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no more steps")

    experiment = made("tasks.a.dataset=synthetic", "clients=2", "engine=inline")
    task = replace(experiment.tasks[0], local=LocalOverride(optimizer=Failing))
    *_, (_, record) = mmfl.rounds(replace(experiment, tasks=(task,)))
    assert {failure.reason for failure in record.failures} == {"raised"}
    assert "no more steps (test_local_optimizers.py, line" in record.failures[0].detail


def test_hooks_of_the_callers_own_optimizers_are_set_aside():
    alone = run(Inline(), optimizer="adam")

    def forget(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = None

    hook = register_optimizer_step_pre_hook(forget)
    try:
        assert run(Inline(), optimizer="adam").fingerprint == alone.fingerprint
    finally:
        hook.remove()


def test_a_model_that_is_trained_with_adam_needs_more_memory():
    from mmfl.experiment.footprint import _copies

    sizes = [_copies(LocalTraining(**s)) for s in ({}, {"optimizer": "adam"}, {"prox": 0.1})]
    assert sizes == [4, 5, 5]
    assert _copies(LocalTraining(momentum=0.0)) == 3
