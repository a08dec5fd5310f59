"""However a run ends, its directory says so, and the error that ended it is the one raised."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Run
from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import Checkpoints
from mmfl.loop.scoring import RegularEvaluation
from mmfl.runs import RunStore, stored_rounds
from mmfl.runs.checkpoints import CheckpointStore
from support.helpers import one_line


@pytest.fixture
def often(small):
    """Three rounds, saved after each."""
    return replace(small, checkpoints=Checkpoints(rounds=1))


def remember(monkeypatch, experiment, value):
    """Let the allocator's state be this value."""
    rule = type(experiment.allocator)
    real = rule.allocate

    def allocate(self, view, state, *, rng):
        assert state is None or (state == value and type(state) is type(value))
        return real(self, view, None, rng=rng)[0], value

    monkeypatch.setattr(rule, "allocate", allocate)


@pytest.mark.parametrize("value", [{(1, "a"), (0, "b")}, frozenset({(1, 2), None, "x"})])
def test_a_rule_may_remember_sets_of_anything(often, monkeypatch, value):
    straight = mmfl.run(often, "straight")
    remember(monkeypatch, often, value)
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    assert Run.load("run").status == "stopped"
    run = mmfl.run(often, "run", resume=True)
    assert (run.status, run.fingerprint) == ("finished", straight.fingerprint)


@pytest.mark.parametrize("rule", ["allocator", "aggregator"])
def test_a_state_that_no_checkpoint_can_hold_is_refused_after_the_first_round(
    small, monkeypatch, rule
):
    seldom = replace(small, checkpoints=Checkpoints(rounds=100))
    if rule == "allocator":
        remember(monkeypatch, seldom, Counter("abc"))
    else:
        kind = type(seldom.aggregator)
        real = kind.aggregate
        monkeypatch.setattr(kind, "aggregate", lambda *args: (real(*args)[0], {"x": Counter()}))
    with pytest.raises(StoreError) as caught:
        mmfl.run(seldom, "run")
    assert str(caught.value) == (
        f"a checkpoint cannot hold the state of {rule!r}: it contains a Counter; use a plain dict "
        "(not Counter)"
    )
    run = Run.load("run")
    assert (run.status, run.rounds) == ("failed", 1)
    none = replace(small, checkpoints=Checkpoints(keep=0))
    assert mmfl.run(none, "none").status == "finished"


@pytest.mark.parametrize("error", [TypeError("odd"), MemoryError(), StoreError("full"), OSError()])
def test_a_checkpoint_that_fails_in_whatever_way_ends_the_run_as_failed(often, monkeypatch, error):
    def save(self, state, note=None):
        raise error

    monkeypatch.setattr(CheckpointStore, "save", save)
    with pytest.raises(type(error)) as caught:
        mmfl.run(often, "run")
    assert caught.value is error
    run = Run.load("run")
    assert run.status == "failed"
    assert type(error).__name__ in run.reason


@pytest.mark.parametrize("stop", [StoreError("first"), KeyboardInterrupt("first")])
def test_what_went_wrong_first_is_told(small, monkeypatch, stop):
    def save(self, state, note=None):
        raise TypeError("second")

    def tested(*args):
        raise stop

    monkeypatch.setattr(CheckpointStore, "save", save)
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        monkeypatch.setattr(RegularEvaluation, "evaluate_tasks", tested)
        warnings.simplefilter("ignore", MmflWarning)  # pytest undoes it
        with pytest.raises(type(stop), match="first"):
            next(rounds)
    assert Run.load("run").status == ("failed" if isinstance(stop, Exception) else "stopped")


def test_leaving_the_loop_early_is_noted_though_nothing_can_be_saved(small, monkeypatch):
    monkeypatch.setattr(CheckpointStore, "save", lambda self, state, note: {}["odd"])
    with (
        pytest.warns(MmflWarning, match="the last checkpoint is missing: 'odd'"),
        stored_rounds(small, "run") as rounds,
    ):
        next(rounds)
    assert Run.load("run").status == "stopped"


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("mmfl.runs.runner.CheckpointStore", "__init__"),
        ("mmfl.runs.runner.CheckpointSchedule", "__init__"),
    ],
)
def test_trouble_before_the_first_round_is_noted(small, monkeypatch, where, what):
    def fail(self, *args, **settings):
        raise TypeError("odd")

    monkeypatch.setattr(f"{where}.{what}", fail)
    with pytest.raises(TypeError, match="odd"):
        mmfl.run(small, "run")
    assert Run.load("run").status == "failed"


def test_a_run_whose_end_cannot_be_noted_has_not_finished(small, monkeypatch):
    real = RunStore.note

    def note(self, **values):
        if "fingerprint" in values:
            raise StoreError("full")
        real(self, **values)

    monkeypatch.setattr(RunStore, "note", note)
    with pytest.raises(StoreError, match="full"):
        mmfl.run(small, "run")
    run = Run.load("run")
    assert (run.status, run.fingerprint) == ("failed", "")


def test_who_has_lost_the_folder_writes_no_checkpoint_into_it(small):
    experiment = replace(small, rounds=5, checkpoints=Checkpoints(rounds=5))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
        Path("run").rename("moved")
        Path("run").mkdir()
        with pytest.raises(StoreError, match="was moved or removed during the run"):
            list(rounds)
    assert list(Path("run").iterdir()) == []


@pytest.mark.parametrize("keep", [0, 2])
def test_checkpoints_of_another_run_behind_a_link_stay(small, keep):
    often = replace(small, rounds=2, checkpoints=Checkpoints(rounds=1, keep=2))
    mmfl.run(often, "theirs")
    mmfl.run(replace(often, seed=2, checkpoints=Checkpoints(rounds=1, keep=keep)), "ours")
    shutil.rmtree("ours/checkpoints", ignore_errors=True)
    Path("ours/checkpoints").symlink_to("../theirs/checkpoints")
    before = Run.load("ours").rounds, sorted(Path("theirs/checkpoints").iterdir())
    longer = replace(often, seed=2, rounds=3, checkpoints=Checkpoints(rounds=1, keep=keep))
    said = one_line(StoreError, lambda: mmfl.run(longer, "ours", resume=True))
    assert said == "'ours/checkpoints' is a link that does not belong to this run; remove it"
    assert (Run.load("ours").rounds, sorted(Path("theirs/checkpoints").iterdir())) == before
    Path("ours/checkpoints").unlink()
    with pytest.warns(MmflWarning) if keep else nullcontext():
        assert mmfl.run(longer, "ours", resume=True).rounds == 3


def test_a_run_saves_no_checkpoint_through_a_link(small, tmp_path):
    (tmp_path / "theirs").mkdir()
    with stored_rounds(replace(small, checkpoints=Checkpoints(rounds=1)), "run") as rounds:
        rounds.start()
        Path("run/checkpoints").symlink_to(tmp_path / "theirs")
        with pytest.raises(StoreError, match="is a link that does not belong to this run"):
            next(rounds)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_models_are_not_written_through_a_link(small, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        Path("run/models").symlink_to(theirs)
        with pytest.raises(StoreError, match="is a link that does not belong to this run"):
            list(rounds)
    assert list(theirs.iterdir()) == []
