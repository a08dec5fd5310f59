"""Runs that are broken off at any point go on to the bits of the run that was not."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.errors import EngineError, MmflWarning, StoreError
from mmfl.experiment import Checkpoints
from mmfl.loop.scoring import RegularEvaluation
from mmfl.market import MECHANISMS
from mmfl.market.bids_io import Csv
from mmfl.runs import RunStore, stored_rounds
from mmfl.runs.directory import lock
from mmfl.runs.directory.folders import last_folder
from mmfl.runs.directory.lock import Lease
from support.helpers import one_line
from support.marks import slow
from support.rewriting import edited, make_older, rewrite

AUCTION = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 4.0 }
dropouts = "unpaid"
"""


@pytest.fixture(scope="module")
def often(small_toml) -> Experiment:
    """Five rounds, saved after each."""
    small = Experiment.from_toml(small_toml)
    return replace(small, rounds=5, checkpoints=Checkpoints(rounds=1, keep=2))


def told(folder: Path) -> dict[str, list[tuple]]:
    """All that a run's database tells, but times and processes."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as database:
        tables = {
            "round": "SELECT round, active, samples, fresh, chain, assignment FROM round",
            "round_task": "SELECT * FROM round_task ORDER BY round, task",
            "failure": "SELECT * FROM failure",
            "award": "SELECT * FROM award ORDER BY task, client",
            "auction": "SELECT * FROM auction ORDER BY task",
            "meta": "SELECT * FROM meta WHERE key IN ('status', 'rounds', 'fingerprint')",
        }
        return {name: database.execute(query).fetchall() for name, query in tables.items()}


def copies(experiment: Experiment, out: Path) -> list[Path]:
    """The directory as it is after each round, as a kill would leave it."""
    found = []
    with stored_rounds(experiment, out) as rounds:
        rounds.start()
        found.append(Path(f"{out}-at-0"))
        shutil.copytree(out, found[0])
        for _, record in rounds:
            found.append(Path(f"{out}-at-{record.round}"))
            shutil.copytree(out, found[-1])
    return found


@pytest.fixture(scope="module")
def straight(often, tmp_path_factory) -> Path:
    """The folder of a run that nothing interrupted; its copies lie next to it."""
    out = tmp_path_factory.mktemp("often") / "straight"
    copies(often, out)
    return out


@pytest.fixture(scope="module")
def first_round(often, tmp_path_factory) -> Path:
    """The folder of a run that was stopped after its first round."""
    out = tmp_path_factory.mktemp("often") / "stopped"
    with stored_rounds(often, out) as rounds:
        next(rounds)
    return out


@pytest.fixture
def left(straight) -> Callable[[int], Path]:
    """From a round to a folder as a kill after it would leave it."""
    return lambda after: Path(shutil.copytree(f"{straight}-at-{after}", f"at-{after}"))


@pytest.mark.parametrize(
    ("rounds", "recruited"),
    [(1, True), (2, False), slow(1, False), slow(2, True), slow(100, False), slow(100, True)],
)
def test_left_after_any_round_it_ends_like_the_straight_run(often, rounds, recruited):
    text = often.to_toml() + (AUCTION if recruited else "")
    experiment = Experiment.from_toml(text, sets=[f"checkpoints.rounds={rounds}"])
    killed = copies(experiment, Path("straight"))
    straight = Run.load("straight")
    assert straight.fingerprint
    for folder in killed:
        run = mmfl.run(experiment, folder, resume=True)
        assert run.fingerprint == straight.fingerprint
        assert told(folder) == told(Path("straight"))
        for model in Path("straight/models").iterdir():
            assert (folder / "models" / model.name).read_bytes() == model.read_bytes()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("after", [0, 2])
def test_broken_off_in_the_middle_of_a_round_nothing_before_it_is_lost(
    often, straight, monkeypatch, stop, after
):
    experiment = replace(often, checkpoints=Checkpoints())
    with monkeypatch.context() as patched:
        count = 0

        def tested(*args):
            nonlocal count
            count += 1
            if count > after:
                raise stop
            return real(*args)

        real = RegularEvaluation.evaluate_tasks
        patched.setattr(RegularEvaluation, "evaluate_tasks", tested)
        with pytest.raises(stop if stop is KeyboardInterrupt else EngineError):
            mmfl.run(experiment, "run")
    assert Run.load("run").rounds == after
    assert Run.load("run").status == ("stopped" if stop is KeyboardInterrupt else "failed")
    with stored_rounds(experiment, "run", resume=True) as rounds:
        rounds.start()
        assert rounds.after == after
        assert len(list(rounds)) == 5 - after
    assert Run.load("run").fingerprint == Run.load(straight).fingerprint
    assert Run.load("run").reason == ""


def test_early_stopping_can_be_taken_back(small):
    straight = mmfl.run(small, "straight")
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    assert mmfl.run(small, "run", resume=True).fingerprint == straight.fingerprint


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(often, straight, left):
    folder = left(4)
    newest = max(folder.glob("checkpoints/round-*"))
    newest.write_bytes(newest.read_bytes().replace(b"1", b"2", 1))
    with pytest.warns(MmflWarning, match=newest.name) as caught:
        run = mmfl.run(often, folder, resume=True)
    (warning,) = caught
    assert "the one of round 3" in str(warning.message)
    assert run.fingerprint == Run.load(straight).fingerprint
    assert told(folder) == told(straight)


def test_a_damaged_checkpoint_is_told_of_once(often, straight, left):
    folder = left(4)
    newest = max(folder.glob("checkpoints/round-*"))
    newest.write_bytes(b"")
    with stored_rounds(replace(often, checkpoints=Checkpoints()), folder, resume=True) as rounds:
        with pytest.warns(MmflWarning, match=newest.name):
            rounds.start()
        shutil.copytree(folder, "again")  # as a kill before the next checkpoint would leave it
    assert not Path("again/checkpoints", newest.name).exists()
    assert mmfl.run(often, "again", resume=True).fingerprint == Run.load(straight).fingerprint


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_without_a_whole_checkpoint_it_starts_again_and_says_so(often, straight, left, how):
    folder = left(4)
    for path in folder.glob("checkpoints/*"):
        path.unlink() if how == "gone" else path.write_bytes(b"")
    with pytest.warns(MmflWarning, match="resumes from the start"):
        run = mmfl.run(often, folder, resume=True)
    assert run.fingerprint == Run.load(straight).fingerprint
    assert told(folder) == told(straight)


def test_rounds_that_a_power_cut_took_from_the_database_are_done_again(often, straight, left):
    earlier, folder = left(3), left(4)
    for path in folder.glob("run.sqlite*"):
        path.unlink()
    for path in earlier.glob("run.sqlite*"):
        shutil.copy(path, folder)
    with pytest.warns(MmflWarning, match="database, so the run resumes from the one of round"):
        run = mmfl.run(often, folder, resume=True)
    assert run.fingerprint == Run.load(straight).fingerprint
    assert told(folder) == told(straight)


def test_a_checkpoint_of_another_history_is_not_used(often, straight, left):
    folder = left(4)
    with edited(folder) as database:
        database.execute("UPDATE round SET chain = ? WHERE round = 4", ("f" * 64,))
    with pytest.warns(MmflWarning, match="does not match the history"):
        mmfl.run(often, folder, resume=True)
    assert told(folder) == told(straight)


def test_more_rounds_go_on_like_a_longer_run(often):
    longer = replace(often, rounds=8, evaluate=replace(often.evaluate, every=3))
    shorter = replace(longer, rounds=4)
    straight = mmfl.run(longer, "straight")
    mmfl.run(shorter, "run")
    with stored_rounds(longer, "run", resume=True) as rounds:
        rounds.start()
        assert rounds.after == 4
        assert len(list(rounds)) == 4
    grown = Run.load("run")
    assert grown.fingerprint == straight.fingerprint
    assert (grown.status, grown.rounds, grown.planned) == ("finished", 8, 8)
    assert Experiment.load("run/experiment.toml").rounds == 8


def test_a_finished_run_has_nothing_left_to_do(often, straight, monkeypatch):
    folder = Path(shutil.copytree(straight, "run"))
    first = Run.load(folder)
    monkeypatch.setattr("mmfl.experiment.Inline.open", None)
    assert mmfl.run(often, folder, resume=True) == first


@pytest.mark.parametrize("name", ["models/{}.safetensors", "mmfl-run.json"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_finished_run_with_a_damaged_file_is_one_sentence(often, name, gone):
    mmfl.run(often, "run")
    name = name.format(often.tasks[0].name)
    path = Path("run", name)
    path.unlink() if gone else path.write_bytes(path.read_bytes() + b" ")
    before = snapshot(Path("run"))
    said = one_line(StoreError, lambda: mmfl.run(often, "run", resume=True))
    assert said.startswith("the run in 'run' is damaged: ")
    assert name in said
    assert said.endswith("; it is left unchanged")
    assert snapshot(Path("run")) == before


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["seed=7"], ["seed was 1 and is now 7"]),
        (["rounds=4"], ["rounds was 5 and is now 4"]),
        (
            ["allocator.alpha=9", "local.lr=0.2", "rounds=9"],
            ["allocator.alpha was 3.0 and is now 9", "local.lr was 0.05 and is now 0.2"],
        ),
        (["tasks.dense.model.hidden=[9]"], ["tasks.dense.model.hidden was [8] and is now [9]"]),
        (["tasks.dense.lr=1.0"], ["tasks.dense.local.lr was not set and is now 1.0"]),
        (["allocator.kind=uniform"], ["allocator.alpha was 3.0 and is now not set", "'uniform'"]),
    ],
)
def test_a_changed_experiment_is_refused_with_what_changed(often, first_round, sets, said):
    folder = Path(shutil.copytree(first_round, "run"))
    before = snapshot(folder)
    other = Experiment.from_toml(often.to_toml(), sets=sets)
    sentence = one_line(StoreError, lambda: mmfl.run(other, folder, resume=True))
    for part in said:
        assert part in sentence
    assert sentence.count(" and is ") == len(said)
    assert snapshot(folder) == before
    assert mmfl.run(often, folder, resume=True).status == "finished"


def test_engine_and_checkpoints_may_change(often, straight, left):
    folder = left(1)
    sets = ["engine.kind=local", "engine.workers=2", "checkpoints.keep=1"]
    other = Experiment.from_toml(often.to_toml(), sets=sets)
    assert mmfl.run(other, folder, resume=True).fingerprint == Run.load(straight).fingerprint


def test_an_allocator_that_plans_by_the_rounds_cannot_get_more(often):
    experiment = Experiment.from_toml(often.to_toml(), sets=["allocator.kind=sequential"])
    mmfl.run(experiment, "run")
    longer = replace(experiment, rounds=9)
    assert experiment.lineage != longer.lineage
    said = one_line(StoreError, lambda: mmfl.run(longer, "run", resume=True))
    assert "rounds was 5 and is now 9" in said
    assert "depends on their number" in said
    fixed = ["allocator.kind=sequential", "allocator.rounds_each=1"]
    other = Experiment.from_toml(often.to_toml(), sets=fixed)
    mmfl.run(other, "other")
    more = replace(other, rounds=7)
    straight = mmfl.run(more, "straight")
    assert mmfl.run(more, "other", resume=True).fingerprint == straight.fingerprint


def test_changed_data_is_refused(often, tmp_path):
    images = np.random.default_rng(0).random((200, 4), np.float32)
    labels = np.arange(200) % 2
    for name, shift in (("one", 0.0), ("two", 0.5)):
        (tmp_path / name).mkdir()
        parts = {"x_train": images + shift, "x_test": images, "y_train": labels, "y_test": labels}
        np.savez(tmp_path / name / "own.npz", **parts)
    text = often.to_toml()
    sets = ["tasks.dense.dataset=own"]
    experiment = Experiment.from_toml(text, sets=sets)
    with stored_rounds(experiment, "run", data_dir="one") as rounds:
        next(rounds)
    again = one_line(StoreError, lambda: mmfl.run(experiment, "run", data_dir="two", resume=True))
    assert "different data for dense" in again
    assert mmfl.run(experiment, "run", data_dir="one", resume=True).status == "finished"


def test_changed_bids_are_refused(often):
    Path("bids.csv").write_text("dense,image\n" + "1,1\n" * 10)
    settings = Experiment.from_toml(often.to_toml() + AUCTION).recruitment
    settings = replace(
        settings,
        bids=Csv("bids.csv"),
        mechanism=MECHANISMS.parse({"kind": "gmm_fair", "budget": 50.0}),
    )
    experiment = replace(often, recruitment=settings)
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
    Path("bids.csv").write_text("dense,image\n" + "1,2\n" * 10)
    other = Experiment.from_toml(experiment.to_toml())
    said = one_line(StoreError, lambda: mmfl.run(other, "run", resume=True))
    assert "different data for recruitment.bids" in said


def test_a_live_run_is_refused(often):
    with stored_rounds(often, "run") as rounds:
        next(rounds)
        before = told(Path("run"))
        said = one_line(StoreError, lambda: mmfl.run(often, "run", resume=True))
        assert said == "'run' is in use by another process"
        assert told(Path("run")) == before
        assert len(list(rounds)) == 4
    assert Run.load("run").status == "finished"


def test_where_folders_cannot_be_locked_the_run_says_who_is_busy(often, monkeypatch):
    def cannot(*_):
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", cannot)
    monkeypatch.setattr(lock, "BEAT", 0.02)
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    with stored_rounds(often, "run") as rounds:
        next(rounds)
        with pytest.warns(MmflWarning, match="waiting up to"):
            said = one_line(StoreError, lambda: mmfl.run(often, "run", resume=True))
        assert "is in use by process" in said
    assert mmfl.run(often, "run", resume=True).status == "finished"


def test_a_lease_ends_with_its_store(often):
    mmfl.run(often, "run")
    Lease(Path("run")).close()


def test_without_checkpoints_it_starts_again(often):
    experiment = replace(often, checkpoints=Checkpoints(keep=0))
    *_, folder, _ = copies(experiment, Path("straight"))
    assert not (folder / "checkpoints").exists()
    assert mmfl.run(experiment, folder, resume=True).fingerprint
    assert told(folder) == told(Path("straight"))


def test_by_default_the_last_of_the_numbered_runs_goes_on(often):
    runs = Path("runs")
    for name in ("run", "run-2", "run-10", "run-x", "runner-11"):
        (runs / name).mkdir(parents=True)
    assert last_folder(runs / "run") == runs / "run-10"
    assert last_folder(runs / "other") == runs / "other"
    assert mmfl.run(often, resume=True).folder == runs / "run-10"


def test_other_versions_are_told_of(often, first_round):
    shutil.copytree(first_round, "run")
    text = Path("run/environment.json").read_text()
    older = text.replace(f'"mmfl": "{mmfl.__version__}"', '"mmfl": "0.0.9"')
    rewrite("run", "environment.json", older)
    with pytest.warns(MmflWarning, match=r"started with mmfl 0\.0\.9"):
        mmfl.run(often, "run", resume=True)
    with closing(RunStore.open(Path("run"))) as store:
        (resumed,) = store.environment()["resumed"]
    assert resumed["after_round"] == 1
    assert resumed["versions"]["mmfl"] == mmfl.__version__


def test_a_run_of_another_format_can_be_read_but_not_continued(often, first_round):
    shutil.copytree(first_round, "run")
    make_older("run")
    assert Run.load("run").rounds == 1
    said = one_line(StoreError, lambda: mmfl.run(often, "run", resume=True))
    assert "another version of mmfl" in said
