"""`engine.timeout`, and evaluations that end a worker."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError
from mmfl.experiment import Local
from support.warm import children


def test_a_turn_that_hangs_is_given_up_after_the_timeout(odd):
    experiment = replace(odd("hangs"), rounds=1, engine=Local(workers=2, timeout=1.5))
    [(_, record)] = list(mmfl.rounds(experiment))
    assert [f.detail for f in record.failures] == ["its turn timed out"] * 2


@pytest.mark.parametrize(
    ("how", "doing"),
    [
        ("evaluation hangs", "evaluating its model"),
        ("every evaluation hangs", "building or first evaluating its model"),
        ("builds for ever", "building or first evaluating its model"),
    ],
)
def test_what_hangs_on_the_server_is_one_sentence_after_the_timeout(odd, how, doing):
    before = children()
    experiment = replace(odd(how), rounds=1, engine=Local(workers=2, timeout=1.5))
    with pytest.raises(EngineError) as error:
        list(mmfl.rounds(experiment))
    assert str(error.value) == f"task 'odd': {doing} took longer than engine.timeout = 1.5 seconds"
    assert children() == before


def client_evaluations(experiment: Experiment, clients: int):
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        asked = {"odd": np.arange(clients)}
        return list(engine.evaluate(engine.initial(), "train", asked))


def test_a_clients_evaluation_that_hangs_is_given_up_after_the_timeout(odd):
    experiment = replace(odd("evaluation hangs"), engine=Local(workers=2, timeout=1.5))
    found = client_evaluations(experiment, 2)
    assert [(f.client, f.reason) for f in found] == [(0, "worker"), (1, "worker")]
    assert {f.detail for f in found} == {"its evaluation timed out"}


def test_of_clients_that_are_asked_together_only_the_deadly_evaluation_is_lost(odd, monkeypatch):
    monkeypatch.setattr("mmfl.engines.requests.LIVES", 1)
    text = odd("evaluation dies").to_toml()
    sets = ["clients.count=20", "engine.workers=1", "tasks.odd.dataset.kind=oddities:Marked"]
    experiment = Experiment.from_toml(text, sets=sets, allow_imports=True)
    found = client_evaluations(experiment, 20)
    assert [f.client for f in found] == list(range(20))
    assert [type(f).__name__ for f in found].count("EvaluationFailure") == 1
