from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError, InputError, StoreError
from mmfl.report import Curves
from mmfl.runs import stored_rounds
from support.helpers import one_line
from support.rewriting import edited


def test_a_runs_curves_are_what_the_run_says(small, tmp_path):
    run = mmfl.run(small, out=tmp_path / "run")
    found = Curves.load(tmp_path / "run")
    assert found.tasks == ("dense", "image")
    assert found.better == ("higher", "higher")
    assert {t: list(found.metric[:, s]) for s, t in enumerate(found.tasks)} == run.history
    assert list(found.turns) == [task["clients"] for task in run.tasks.values()]
    assert found.clients.shape == (found.rounds, 2) == (3, 2)
    assert found.worst[-1] == run.worst
    assert np.array_equal(found.merit, found.metric)


def test_before_the_first_measurement_nothing_is_known(small, tmp_path):
    late = Experiment.from_toml(small.to_toml(), sets=["evaluate.every=3"])
    mmfl.run(late, out=tmp_path / "run")
    found = Curves.load(tmp_path / "run")
    assert np.isnan(found.metric[:2]).all()
    assert np.isnan(found.worst[:2]).all()
    assert np.isfinite(found.metric[2]).all()
    assert (found.measured, found.step) == ((3,), 3)


def test_the_rounds_that_were_measured_are_read_from_the_store(small, tmp_path):
    late = Experiment.from_toml(small.to_toml(), sets=["evaluate.every=4", "rounds=6"])
    mmfl.run(late, out=tmp_path / "run")
    found = Curves.load(tmp_path / "run")
    assert (found.measured, found.step) == ((4, 6), 4)
    assert np.array_equal(found.metric[4], found.metric[3])  # repeated, not measured
    mmfl.run(small, out=tmp_path / "plain")
    plain = Curves.load(tmp_path / "plain")
    assert (plain.measured, plain.step) == ((1, 2, 3), 1)


def test_which_direction_is_better_is_read_from_the_store(small, tmp_path):
    mmfl.run(dataclasses.replace(small, rounds=1), out=tmp_path / "run")
    with edited(tmp_path / "run") as database:
        database.execute("UPDATE task SET better = 'lower' WHERE name = 'image'")
    found = Curves.load(tmp_path / "run")
    assert found.better == ("higher", "lower")
    dense, image = found.metric[0]
    assert list(found.merit[0]) == [dense, 1 - image]
    assert found.worst[0] == min(dense, 1 - image)


def test_a_folder_without_a_run_is_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, wrong in {"empty": "is not a run directory", "nowhere": "does not exist"}.items():
        message = one_line(StoreError, lambda folder=folder: Curves.load(tmp_path / folder))
        assert f"{folder}' {wrong}" in message


def test_a_run_without_a_round_is_one_sentence(small, tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(small.allocator), "allocate", lambda *_, **__: (_ for _ in ()).throw(KeyError("x"))
    )
    with pytest.raises(EngineError), stored_rounds(small, tmp_path / "run") as rounds:
        next(rounds)
    message = one_line(StoreError, lambda: Curves.load(tmp_path / "run"))
    assert "run' has no finished round yet" in message


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"tasks": ()}, "tasks must be"),
        ({"tasks": ("a", "a")}, "different names"),
        ({"better": ("higher", "more")}, "'higher' or 'lower'"),
        ({"better": ("higher",)}, "for each task"),
        ({"metric": np.zeros((2, 3))}, "2 columns"),
        ({"metric": np.zeros((0, 2)), "clients": np.zeros((0, 2), np.int64)}, "a row per round"),
        ({"clients": np.zeros((1, 2), np.int64)}, "a row per round"),
    ],
)
def test_curves_that_do_not_fit_together_are_one_sentence(fields, word):
    good = {
        "tasks": ("a", "b"),
        "better": ("higher", "lower"),
        "metric": np.full((2, 2), math.nan),
        "clients": np.zeros((2, 2), np.int64),
    }
    Curves(**good)
    assert word in one_line(InputError, lambda: Curves(**(good | fields)))
