"""What planning reads of runs, and which runs it refuses."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import InputError, StoreError
from mmfl.models import Mlp
from mmfl.objectives import LossScore
from mmfl.planning import Surrogate
from mmfl.planning.histories import fit_runs, histories_in, run_folders
from mmfl.planning.surrogate import make_surrogate_experiment
from mmfl.runs import RunStore
from mmfl.system.calls import intercept
from support.crowd import TASKS, Crowd, experiment
from support.helpers import one_line
from support.rewriting import edited, rewrite


@dataclasses.dataclass(frozen=True)
class Known:
    """A task whose difficulty after so many turns is 1 / (1 + U)."""

    beta: float = 1.0

    def difficulty(self, work: float) -> float:
        return 1 / (1 + work)

    def metric(self, work: float) -> float:
        return 1 - 1 / (1 + work)


def stored(folder: Path, made: Experiment, seed: int = 0, rounds: int | None = None) -> Path:
    """A run directory as a real run leaves it, of tasks whose curves are known."""
    again = make_surrogate_experiment(made, seed)
    engine = Surrogate(again, Crowd(np.full((12, 3), 5)), dict.fromkeys(TASKS, Known()))
    store = RunStore.create(folder, dataclasses.replace(made.resolved(), seed=seed))
    for state, record in mmfl.rounds(again, engine=engine):
        if rounds is None or record.round <= rounds:
            store.add(state, record)
    store.note(status="finished")
    store.close()
    return folder


@pytest.fixture
def made() -> Experiment:
    return dataclasses.replace(experiment(), rounds=30)


def test_a_run_tells_the_curves_of_its_tasks(tmp_path, made):
    folder = stored(tmp_path / "run", made)
    fit = fit_runs(made, [folder])
    assert fit.folders == (folder,)
    assert fit.notes == ()
    for learning in fit.tasks.values():
        assert not learning.beta_known
        assert learning.hardness.end > 30
        end = learning.hardness.end
        assert learning.difficulty(0.0) > learning.difficulty(end / 2) > learning.difficulty(end)
        assert learning.metric(end) == pytest.approx(1 - learning.difficulty(end))


def test_a_run_is_asked_once_for_the_histories_of_all_tasks(tmp_path, made):
    folder, asked = stored(tmp_path / "run", made, rounds=4), []

    def count(name, function, args, options):
        if name == "execute" and "JOIN round USING" in args[1]:
            asked.append(args[1])
        return function(*args, **options)

    with intercept(count):
        histories = histories_in(folder, made.resolved())
    assert len(asked) == 1
    with closing(RunStore.open(folder)) as store:
        for number, name, *_ in store.tasks():
            rows = store.rows("SELECT clients, difficulty FROM round_task WHERE task = ?", number)
            clients, difficulty = zip(*rows, strict=True)
            assert histories[name].clients.tolist() == list(clients)
            assert histories[name].difficulty.tolist() == list(difficulty)


def test_a_folder_of_runs_is_all_of_them_and_they_tell_beta(tmp_path, made):
    for name, active in (("few", 0.25), ("many", 1.0)):
        some = dataclasses.replace(made, clients=dataclasses.replace(made.clients, active=active))
        for seed in (0, 1):
            stored(tmp_path / "out" / name / f"seed-{seed}", some, seed)
    assert len(run_folders(tmp_path / "out")) == 4
    assert len(run_folders(tmp_path / "out" / "few")) == 2
    fit = fit_runs(made, [tmp_path / "out", tmp_path / "out" / "few"])  # none counts twice
    assert len(fit.folders) == 4
    for learning in fit.tasks.values():
        assert learning.beta_known
        assert learning.beta == pytest.approx(1.0, abs=0.1)


def test_what_is_no_run_and_a_run_without_rounds_are_refused(tmp_path, made):
    (tmp_path / "empty").mkdir()
    assert "does not contain a run" in one_line(
        StoreError, lambda: fit_runs(made, [tmp_path / "empty"])
    )
    assert "does not exist" in one_line(StoreError, lambda: fit_runs(made, [tmp_path / "nowhere"]))
    none = stored(tmp_path / "none", made, rounds=0)
    assert "no finished round yet" in one_line(StoreError, lambda: fit_runs(made, [none]))
    (tmp_path / "none" / "experiment.toml").write_text("rounds = = 2")
    assert "experiment.toml does not match its hash" in one_line(
        StoreError, lambda: fit_runs(made, [none])
    )
    rewrite(none, "experiment.toml", "rounds = = 2")
    assert "experiment.toml': Invalid value" in one_line(StoreError, lambda: fit_runs(made, [none]))


def test_a_run_of_other_tasks_or_with_another_score_is_refused(tmp_path, made):
    folder = stored(tmp_path / "run", made)
    text = made.to_toml().replace('name = "b"', 'name = "z"')
    said = one_line(InputError, lambda: fit_runs(Experiment.from_toml(text), [folder]))
    assert said == f"run {str(folder)!r} has no task 'z'"
    other = dataclasses.replace(made, score=LossScore())
    assert "scored tasks by 'error', but the experiment uses 'loss'" in one_line(
        InputError, lambda: fit_runs(other, [folder])
    )
    judged = Experiment.from_toml(made.to_toml(), sets=["tasks.a.metric={kind='top_k', k=2}"])
    assert "evaluates task 'a' by accuracy, but the experiment uses top_k" in one_line(
        InputError, lambda: fit_runs(judged, [folder])
    )


def test_a_task_that_no_run_trained_is_named(tmp_path, made):
    folder = stored(tmp_path / "run", made)
    with edited(folder) as database:
        database.execute("UPDATE round_task SET clients = 0 WHERE task = 1")
    said = one_line(InputError, lambda: fit_runs(made, [folder]))
    assert said == "run: task 'b' has no curve: the run never trained it"


def test_other_settings_of_a_task_are_told(tmp_path, made):
    folder = stored(tmp_path / "run", made)
    a, *others = made.tasks
    changed = dataclasses.replace(made, tasks=(dataclasses.replace(a, model=Mlp([9])), *others))
    changed = Experiment.from_toml(changed.to_toml(), sets=["tasks.b.lr=0.5"])
    notes = fit_runs(changed, [folder]).notes
    assert notes[0].startswith("Task a was trained with a different model in the runs than in")
    assert notes[1].startswith("Task b was trained with a different local.lr in the runs than in")
