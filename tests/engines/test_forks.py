"""Workers that die while a fork of them lives, that are stopped, or that a fork of ours finds."""

from __future__ import annotations

import json
import os
import select
import signal
import textwrap
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl.errors import EngineError
from mmfl.exchange import Params
from mmfl.experiment import Clients, Inline, Local
from mmfl.system import calls
from support.forking import LONG, ForkingLoss, fork_and_wait
from support.jobs import first_jobs
from support.warm import children

FORKING = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
from torch import nn

@dataclass(frozen=True)
class Forking:
    path: str
    how: str

    def build(self, shape, outputs):
        return Net(Path(self.path), self.how, shape[0], outputs)

class Net(nn.Linear):
    def __init__(self, path, how, *sizes):
        super().__init__(*sizes)
        self.path, self.how = path, how

    def forward(self, x):
        if self.training and self.how == "forks and dies" and not self.path.exists():
            fork = os.fork()
            if not fork:
                signal.pause()
            self.path.write_text(str(fork))
            os.kill(os.getpid(), signal.SIGKILL)
        if self.training and self.how.startswith("forks in each step"):
            fork = os.fork()
            if fork:
                os.waitpid(fork, 0)
            else:
                with self.path.open("a") as file:
                    file.write("x")
                if self.how.endswith("and raises"):
                    raise ValueError
                if self.how.endswith("and exits"):
                    raise SystemExit
        return super().forward(x)
"""


@pytest.mark.parametrize("how", ["", " and raises", " and exits"])
@pytest.mark.parametrize("engine", [Inline(), Local(workers=1)], ids=["inline", "local"])
def test_a_fork_that_comes_back_from_the_model_ends_there(odd, tmp_path: Path, engine, how):
    """It neither takes the next step, in which it would fork again, nor becomes a second run."""
    (tmp_path / "forking.py").write_text(textwrap.dedent(FORKING))
    text = odd("works").to_toml().replace("oddities:Odd", "forking:Forking")
    text = text.replace("epochs = 1", "steps = 3")
    sets = ["rounds=1", "local.batch_size=2"]
    works = mmfl.Experiment.from_toml(text, sets=sets, allow_imports=True)
    *_, (straight, done) = mmfl.rounds(replace(works, engine=engine))
    sets.append(f"tasks.odd.model.how=forks in each step{how}")
    forking = mmfl.Experiment.from_toml(text, sets=sets, allow_imports=True)
    *_, (state, record) = mmfl.rounds(replace(forking, engine=engine))
    assert record.failures == ()
    assert np.array_equal(state.params["odd"].flat, straight.params["odd"].flat)
    assert (tmp_path / "flag").read_text() == "xxx" * sum(done.clients.values())


def test_a_worker_that_dies_while_a_fork_of_it_lives_is_replaced(odd, tmp_path: Path):
    (tmp_path / "forking.py").write_text(textwrap.dedent(FORKING))
    experiments = {}
    for how in ("forks and dies", "works"):
        text = odd(how).to_toml().replace("oddities:Odd", "forking:Forking")
        experiments[how] = mmfl.Experiment.from_toml(text, sets=["rounds=1"], allow_imports=True)
    *_, (straight, _) = mmfl.rounds(replace(experiments["works"], engine=Inline()))
    forking = replace(experiments["forks and dies"], engine=Local(workers=1))
    try:
        *_, (state, record) = mmfl.rounds(forking)
    finally:
        os.kill(int((tmp_path / "flag").read_text()), signal.SIGKILL)
    assert record.failures == ()
    assert state.fingerprint == straight.fingerprint


def test_a_worker_that_is_stopped_while_it_starts_is_replaced_after_the_timeout(odd):
    """The clock jumps while the first worker is the only one, and is stopped."""
    started: list[int] = []
    ahead = 0.0

    def stop_first(name, function, args, options):
        nonlocal ahead
        if name == "wait" and len(started) == 1 and not ahead:
            ahead = 1000.0
            return []
        result = function(*args, **options)
        if name == "spawn":
            started.append(result.pid)
            if len(started) == 1:
                os.kill(result.pid, signal.SIGSTOP)
        return result + ahead if name == "monotonic" else result

    engine = Local(workers=1, timeout=900.0)
    experiment = replace(odd("works"), rounds=1, clients=Clients(1), engine=engine)
    with calls.intercept(stop_first):
        [(_, record)] = list(mmfl.rounds(experiment))
    assert len(started) == 2
    assert record.failures == ()


def test_a_fork_of_the_coordinator_can_neither_use_nor_end_its_workers(odd):
    experiment = replace(odd("works"), engine=Local(workers=1))
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        params = engine.initial()
        (before,) = engine.evaluate(params, "test")
        workers = children()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
            fork = os.fork()
        if not fork:
            code = 1
            try:
                list(engine.evaluate(params, "test"))
            except EngineError:
                code = 0
            finally:
                engine.close()
                os._exit(code)
        _, status = os.waitpid(fork, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        (after,) = engine.evaluate(params, "test")
        assert after == before
        assert children() == workers


TEXT = """
rounds = 1
[local]
epochs = 1
[clients]
count = COUNT
[[tasks]]
name = "a"
dataset = { kind = "synthetic", classes = 3, train = 400, test = 90 }
model = { kind = "support.forking:Forking", path = "PATH", how = "HOW", batch = BATCH }
[[tasks]]
name = "b"
dataset = { kind = "synthetic", classes = 4, train = 300, test = 120, seed = 5 }
"""


def forking(how: str, *, count: int = 6, batch: int = 1, path: str = "code") -> mmfl.Experiment:
    values = {"COUNT": count, "PATH": str(Path(path).absolute()), "HOW": how, "BATCH": batch}
    text = TEXT
    for name, value in values.items():
        text = text.replace(name, str(value))
    made = mmfl.Experiment.from_toml(text, allow_imports=True)
    return replace(made, engine=Local(workers=1))


@pytest.mark.parametrize(
    ("how", "count"), [("trains", 6), ("raises", 6), ("evaluates", 6), ("trains", 80)]
)
def test_a_fork_of_a_worker_ends_when_it_comes_back_and_nobody_hears_of_it(how, count):
    """With 80 clients it is forked in a chunk's second turn, and must not add to the first's."""
    experiment = forking(how, count=count, batch=2)
    seen = {}
    for path in ("exists", "code"):  # no fork, then one
        Path("exists").touch()
        model = replace(experiment.tasks[0].model, path=str(Path(path).absolute()))
        tasks = (replace(experiment.tasks[0], model=model), experiment.tasks[1])
        seen[path] = list(mmfl.rounds(replace(experiment, tasks=tasks)))
    assert Path("code").read_text() == "0"
    for (calm, record), (state, other) in zip(seen["exists"], seen["code"], strict=True):
        assert (other.metric, other.loss) == (record.metric, record.loss)
        assert other.failures == ()
        for task, params in calm.params.items():
            assert np.array_equal(state.params[task].flat, params.flat)


@pytest.mark.parametrize("kernel", ["reference", "fast"])
@pytest.mark.parametrize("how", ["forwards", "backwards"])
def test_a_fork_of_a_worker_in_a_loss_ends_before_the_next_step(how, kernel):
    loss = ForkingLoss(str(Path.cwd()), how)
    experiment = forking("trains", path="exists")
    Path("exists").touch()  # the model does not fork
    task = replace(experiment.tasks[0], loss=loss, kernel=kernel)
    ((_, record),) = mmfl.rounds(replace(experiment, tasks=(task,)))
    assert record.failures == ()
    assert Path("code").read_text() == "0"
    batches = Path("batches").read_text().split()
    assert len(batches) > 6
    assert len(set(batches)) == 1


def test_a_fork_of_a_worker_writes_no_update_where_another_is():
    """It comes back when its worker has answered, and while the update is read."""
    os.mkfifo("pipe")
    experiment = forking("late", path="pipe")
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        jobs, params = first_jobs(engine, experiment)
        mine = [job for job in jobs if job.address.task == "a"]
        results = engine.train(mine, params, merge=True)
        update = next(results)
        before = update.delta.flat.copy()
        pipe = os.open("pipe", os.O_WRONLY)  # lets the fork go on
        poller = select.poll()
        poller.register(pipe, 0)
        poller.poll(1000 * LONG)  # until nobody reads the pipe any more
        os.close(pipe)
        assert np.array_equal(update.delta.flat, before)
        results.close()


def test_a_reply_to_another_request_ends_the_worker_and_the_request_is_asked_again(odd):
    experiment = replace(odd("works"), engine=Local(workers=1))
    spoiled, started = [], []

    def spoil(name, function, args, options):
        result = function(*args, **options)
        if name == "spawn":
            started.append(result.pid)
        if name == "receive" and b'"found"' in result and not spoiled:
            reply = json.loads(result)
            spoiled.append(reply["number"])
            return json.dumps(reply | {"number": reply["number"] - 1}).encode()
        return result

    straight = [state.fingerprint for state, _ in mmfl.rounds(experiment)]
    with calls.intercept(spoil):
        seen = list(mmfl.rounds(experiment))
    assert [state.fingerprint for state, _ in seen] == straight
    assert seen[-1][1].failures == ()
    assert len(spoiled) == 1
    assert len(started) == 2


def test_a_fork_of_the_coordinator_leaves_the_weights_alone_that_workers_read(odd):
    experiment = replace(odd("works"), clients=Clients(8), engine=Local(workers=1))
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        jobs, params = first_jobs(engine, experiment)
        straight = [update.delta.flat for update in engine.train(jobs, params)]
        results = engine.train(jobs, params)
        seen = [next(results).delta.flat]
        code = fork_and_wait()
        if code is None:
            status = 1
            try:
                zeros = {task: Params(p.layout, 0 * p.flat) for task, p in params.items()}
                list(engine.train(jobs, zeros))
            except EngineError:
                status = 0
            finally:
                os._exit(status)
        seen += [update.delta.flat for update in results]
        assert code == 0
        assert all(map(np.array_equal, seen, straight))
