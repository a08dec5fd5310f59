"""One engine, one experiment after another: the bits of a fresh engine, whatever came before."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import mmfl
from mmfl import Experiment
from mmfl.data import content_hash
from mmfl.errors import DataError, EngineError, MmflError
from mmfl.experiment import Inline, Local
from mmfl.system import calls
from support.helpers import one_line
from support.jobs import first_jobs
from support.warm import children

GOOD = """
rounds = 2
seed = 1
[clients]
count = 5
[local]
epochs = 1
lr = 0.05
[[tasks]]
name = "dense"
dataset = { kind = "synthetic", classes = 3, train = 100, test = 30 }
model = { kind = "mlp", hidden = [8], dropout = 0.3 }
[[tasks]]
name = "image"
dataset = { kind = "synthetic", classes = 4, shape = [8, 8], train = 80, test = 30 }
model = { kind = "cnn", channels = [2, 2], dense = 4 }
"""
OTHERS = {
    "seed": ["seed=7"],
    "smaller model": ["tasks.dense.model={kind='mlp', hidden=[3]}"],
    "larger model": ["tasks.dense.model={kind='mlp', hidden=[40, 40]}", "tasks.image.model=mlp"],
    "data": ["tasks.dense.dataset.seed=5", "tasks.image.dataset.train=300"],
    "clients": ["clients.count=9", "validation=0.3", "local.epochs=2"],
    "rate": ["local.lr=0.2", "allocator=round_robin"],
}
MODULE = """
import weakref
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Unbuildable:
    def build(self, shape, outputs):
        raise RuntimeError("no such layer")

@dataclass(frozen=True)
class Picky:
    def build(self, shape, outputs):
        return Net(shape[0], outputs)

ALIVE = weakref.WeakSet()

@dataclass(frozen=True)
class Cyclic:
    def build(self, shape, outputs):
        if len(ALIVE) > 2:
            raise RuntimeError(f"{len(ALIVE)} models are alive")
        made = nn.Linear(shape[0], outputs)
        made.owners = [made]
        ALIVE.add(made)
        return made

class Net(nn.Linear):
    def forward(self, x):
        if len(x) > 2 and not self.training:
            raise ValueError("too many")
        return super().forward(x)
"""

LOUD = """
import torch
from dataclasses import dataclass

torch.set_default_dtype(torch.float64)

@dataclass(frozen=True)
class Loud:
    def build(self, shape, outputs):
        return Net(shape[0], outputs)

class Net(torch.nn.Linear):
    def forward(self, x):
        torch._C._set_mkldnn_enabled(False)
        torch.set_anomaly_enabled(True)
        torch.set_autocast_enabled("cpu", not self.training)
        return super().forward(x)
"""


def made(*sets: str) -> Experiment:
    return Experiment.from_toml(GOOD, sets=sets, allow_imports=True)


def serve(engine, experiment: Experiment) -> str:
    """The run's fingerprint on a running engine."""
    engine.prepare(experiment)
    *_, (state, record) = mmfl.rounds(experiment, engine=engine)
    assert record.failures == ()
    return state.fingerprint


@cache
def fresh(*sets: str) -> str:
    experiment = made(*sets)
    with closing(Inline().open(experiment, data_dir=None)) as engine:
        return serve(engine, experiment)


@pytest.fixture(scope="module")
def expected() -> str:
    return fresh()


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "prepare_models.py").write_text(MODULE)
    (folder / "loud_models.py").write_text(LOUD)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    for name in ("prepare_models", "loud_models"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module", params=[Inline(), Local(workers=2)], ids=["inline", "local"])
def engine(request, module):
    with closing(request.param.open(made(), data_dir=None)) as engine:
        yield engine


def test_a_sequence_of_experiments_has_the_fingerprints_of_fresh_engines(engine, expected):
    assert serve(engine, made()) == expected
    for sets in OTHERS.values():
        assert serve(engine, made(*sets)) == fresh(*sets) != expected
    assert serve(engine, made()) == expected


def test_tasks_come_and_go(engine, expected):
    whole = made()
    alone = replace(whole, tasks=whole.tasks[1:])
    twice = replace(whole, tasks=(*whole.tasks, replace(whole.tasks[0], name="again")))
    for experiment in (alone, twice, alone):
        *_, (state, _) = mmfl.rounds(replace(experiment, engine=Inline()))
        assert serve(engine, experiment) == state.fingerprint
        assert tuple(engine.initial()) == tuple(task.name for task in experiment.tasks)
    assert serve(engine, whole) == expected


def test_the_hashes_are_those_of_the_data_that_is_served(engine):
    for sets in ([], OTHERS["data"], []):
        experiment = made(*sets)
        engine.prepare(experiment)
        assert engine.data() == {
            task.name: content_hash(task.dataset.load(None)) for task in experiment.tasks
        }


def write_npz(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(100, 4)).astype(np.float32), rng.integers(0, 3, 100)
    np.savez("d.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])


@pytest.mark.parametrize("settings", [Inline(), Local(workers=1)], ids=["inline", "local"])
def test_after_a_failed_prepare_the_hashes_are_those_of_the_data_that_is_still_served(settings):
    write_npz(0)
    npz = "tasks.dense.dataset={kind='npz', path='d.npz'}"
    served = made(npz)
    with closing(settings.open(served, data_dir=None)) as engine:
        before = engine.data()
        for sets in (["validation=0.001"], ["tasks.dense.partition={kind='by_group'}"]):
            one_line(DataError, lambda sets=sets: engine.prepare(made(*OTHER_DATA, *sets)))
            write_npz(1)
            engine.prepare(served)  # which is a round's first step
            assert engine.data() == before
        assert serve(engine, made(*OTHER_DATA)) == fresh(*OTHER_DATA)
        engine.prepare(made(npz, "seed=7"))
        assert engine.data()["dense"] != before["dense"]  # it was dropped, and is loaded again


OTHER_DATA = ["tasks.dense.dataset.seed=5", "tasks.image.dataset.seed=5"]
BROKEN = {
    "data": (["tasks.dense.dataset=nowhere"], "task 'dense': data set 'nowhere'"),
    "partition": (["tasks.dense.partition={kind='by_group'}"], "task 'dense': "),
    "validation": (["validation=0.001"], "task 'dense': validation = 0.001"),
    "model": (["tasks.dense.model=prepare_models:Unbuildable"], "no such layer"),
    "measuring": (["tasks.dense.model=prepare_models:Picky"], "ValueError: too many"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_after_a_broken_experiment_a_good_one_is_served(engine, expected, name):
    sets, sentence = BROKEN[name]
    broken = made(*OTHER_DATA, *sets)
    for _ in range(2):
        message = one_line(MmflError, lambda: serve(engine, broken))
        assert sentence in message
    assert serve(engine, made()) == expected


@pytest.fixture(scope="module")
def local(module):
    with closing(Local(workers=1).open(made(), data_dir=None)) as engine:
        yield engine


def test_a_full_disk_leaves_the_engine_usable(local, expected):
    serve(local, made())

    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.posix_fallocate", full)
        message = one_line(EngineError, lambda: local.prepare(made(*OTHER_DATA)))
        assert "set TMPDIR" in message
    assert serve(local, made("seed=7")) == fresh("seed=7")
    assert serve(local, made()) == expected


def fail(call: str):
    """Every such call to the operating system fails."""

    def act(name, function, args, options):
        if name == call:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return function(*args, **options)

    return calls.intercept(act)


def test_a_failed_prepare_does_not_spoil_the_rounds_that_were_served_before(module, expected):
    """The data is replaced, and then a worker is missing that cannot be started."""
    with closing(Local(workers=2).open(made(), data_dir=None)) as engine:
        rounds = mmfl.rounds(made(), engine=engine)
        next(rounds)
        jobs, params = first_jobs(engine, made())
        with fail("wait"):  # which ends the one worker that has something to do
            one_line(EngineError, lambda: list(engine.train(jobs[:1], params)))
        with fail("spawn"):
            message = one_line(EngineError, lambda: engine.prepare(made(*OTHER_DATA)))
        assert "a process cannot be started" in message
        assert "prepare the engine again" in one_line(EngineError, engine.initial)
        [(state, record)] = list(rounds)
        assert record.failures == ()
        assert state.fingerprint == expected
        assert serve(engine, made(*OTHER_DATA)) == fresh(*OTHER_DATA)


def test_what_only_this_process_can_import_is_one_sentence(local, expected, tmp_path, monkeypatch):
    serve(local, made())
    (tmp_path / "late_models.py").write_text(MODULE.replace("Unbuildable", "Late"))
    monkeypatch.syspath_prepend(tmp_path)  # the workers were started before
    broken = made("tasks.dense.model=late_models:Picky")
    with pytest.raises(EngineError, match="cannot import 'late_models:Picky'"):
        serve(local, broken)
    assert serve(local, made()) == expected
    local.prepare(broken)
    sys.modules.pop("late_models", None)
    assert serve(local, made()) == expected  # the answer to a setup that is void is not waited for


def test_what_a_module_and_its_model_change_in_torch_changes_no_built_in_model(module, expected):
    loud = ("tasks.dense.model=loud_models:Loud",)
    with closing(Local(workers=1).open(made(), data_dir=None)) as engine:
        assert serve(engine, made()) == expected  # until now this worker runs only mmfl's code
        try:
            with_loud = serve(engine, made(*loud))
            assert torch.get_default_dtype() == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        assert serve(engine, made()) == expected
    assert with_loud == fresh(*loud) != expected


def test_an_evaluation_that_fails_leaves_no_answer_behind(local, expected):
    many = ["evaluate.batch_size=3", "score_split=test", "tasks.dense.dataset.test=100"]
    broken = made("tasks.dense.model=prepare_models:Picky", *many)
    with pytest.raises(EngineError, match="too many") as caught:
        serve(local, broken)
    assert serve(local, made()) == expected  # while the failed call's frames are still alive
    assert caught.value.__traceback__


def test_models_of_experiments_before_do_not_stay_in_the_workers_memory(local, expected):
    for seed in range(6):
        serve(local, made("tasks.dense.model=prepare_models:Cyclic", f"seed={seed}", "rounds=1"))
    assert serve(local, made()) == expected


def test_workers_that_are_killed_after_prepare_are_replaced(local, expected):
    assert serve(local, made()) == expected
    other = (*OTHERS["data"], *OTHERS["larger model"])
    local.prepare(made(*other))
    workers = children()
    assert workers
    for pid in workers:
        os.kill(int(pid), signal.SIGKILL)
    *_, (state, record) = mmfl.rounds(made(*other), engine=local)
    assert record.failures == ()
    assert state.fingerprint == fresh(*other)
    assert serve(local, made()) == expected


def test_an_engine_that_was_never_good_is_not_left_open():
    before = children()
    message = one_line(
        DataError, lambda: Local(workers=2).open(made("validation=0.001"), data_dir=None)
    )
    assert "validation = 0.001" in message
    assert children() == before
