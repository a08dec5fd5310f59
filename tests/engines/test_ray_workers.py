"""Ray's workers: what a user's code does to them, and what becomes of it."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.engines.ray.connection import connect
from mmfl.errors import EngineError
from mmfl.experiment import Clients, Inline, Ray
from support.helpers import one_line

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.engines


@pytest.fixture(scope="module", autouse=True)
def _ray():
    """All engines here share a Ray of this program's own."""
    connection = connect(None)
    yield
    connection.release()


def on_ray(experiment, **settings):
    return replace(experiment, engine=Ray(**{"workers": 2, **settings}))


def test_a_worker_that_is_killed_is_replaced_and_the_result_is_the_same(odd):
    (calm, _), (killed, record) = (
        list(mmfl.rounds(experiment))[-1]
        for experiment in (replace(odd("works"), engine=Inline()), on_ray(odd("dies once")))
    )
    assert record.failures == ()
    assert killed.params["odd"].flat.tobytes() == calm.params["odd"].flat.tobytes()


def test_a_turn_that_kills_three_workers_is_a_client_failure(odd):
    experiment = replace(on_ray(odd("dies always"), workers=1), rounds=1, clients=Clients(1))
    [(_, record)] = list(mmfl.rounds(experiment))
    assert [(f.reason, f.detail) for f in record.failures] == [
        ("worker", "its turn ended 3 worker processes")
    ]


def test_errors_in_a_model_name_the_users_own_lines(odd):
    [(_, record), _] = list(mmfl.rounds(on_ray(odd("raises"))))
    assert {f.detail for f in record.failures} == {
        "ValueError: cannot learn this (oddities.py, line 78, in Net.forward: "
        'raise ValueError("cannot\\nlearn this"))'
    }
    said = one_line(EngineError, lambda: list(mmfl.rounds(on_ray(odd("builds not"), workers=1))))
    rest = r"task 'odd': its model cannot be built: RuntimeError: no such layer \(oddities.py, .*\)"
    assert re.fullmatch(rest, said)


def test_a_turn_that_hangs_is_given_up_after_the_timeout(odd):
    experiment = replace(on_ray(odd("hangs"), timeout=1.5), rounds=1)
    [(_, record)] = list(mmfl.rounds(experiment))
    assert [f.detail for f in record.failures] == ["its turn timed out"] * 2


def test_sums_that_workers_form_and_updates_that_they_refuse_are_those_of_one_process(odd):
    sets = ["clients.count=80", "score_split=test", "rounds=2", "tasks.odd.dataset.train=400"]
    text, finals = odd("works").to_toml(), []
    made = Experiment.from_toml(text, sets=[*sets, "checks.max_norm=0.03"], allow_imports=True)
    for experiment in (replace(made, engine=Inline()), on_ray(made)):
        finals.append(list(mmfl.rounds(experiment)))
    for (ours, one), (theirs, other) in zip(*finals, strict=True):
        assert ours.fingerprint == theirs.fingerprint
        assert one.failures == other.failures
        assert 0 < len(one.failures) < 80
        assert np.array_equal(ours.clients.norm, theirs.clients.norm, equal_nan=True)


def test_an_engine_is_prepared_for_other_experiments_and_for_what_is_in_memory():
    import torch
    from torch import nn

    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    data = x[:90], (x[:90, 0] > 0).astype(int), x[90:], (x[90:, 0] > 0).astype(int)

    def make(width):
        def build(shape, outputs):
            last = nn.Linear(width, outputs)
            return nn.Sequential(nn.Linear(*shape, width), nn.ReLU(), last)

        tasks = [mmfl.Task("a", data=data, model=build)]
        tasks.append(mmfl.Task("b", data=data, model=torch.nn.Linear(3, 2)))
        return mmfl.Experiment(tasks=tasks, clients=4, rounds=2, engine=Ray(workers=1))

    first = make(4)
    with closing(first.engine.open(first, data_dir=None)) as engine:
        for experiment in (first, make(5), first):
            *_, (state, record) = mmfl.rounds(experiment, engine=engine)
            *_, (expected, _) = mmfl.rounds(replace(experiment, engine=Inline()))
            assert (state.fingerprint, record.failures) == (expected.fingerprint, ())
