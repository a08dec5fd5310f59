"""What an experiment certainly needs, and that it is refused in time where there is too little."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mmfl import Experiment
from mmfl.aggregate import Mean, Median
from mmfl.errors import ResourceError
from mmfl.experiment import Inline, Local, ModelSize, model_needs
from mmfl.loop import Population
from mmfl.runs import run
from mmfl.system import memory
from mmfl.system.memory import Memory
from support.helpers import one_line

GB = 10**9


def needs_of(experiment: Experiment, **weighed: ModelSize) -> dict[str, int]:
    engine = Inline().open(experiment, data_dir=None)
    arrays = engine._trainer.arrays
    needs = model_needs(experiment.resolved(), engine.federation, arrays, weighed)
    assert len({need.what for need in needs}) == len(needs)
    return {need.what: need.bytes for need in needs if need.bytes}


@pytest.fixture
def only(monkeypatch):
    """Let the machine have so much memory."""

    def only(**there: int) -> None:
        monkeypatch.setattr(Memory, "now", classmethod(lambda cls: Memory(**there)))

    return only


def changed(small_toml: str, *sets: str) -> Experiment:
    return Experiment.from_toml(small_toml, sets=sets)


# The estimate


def test_weights_gradients_and_momentum_are_needed_wherever_a_task_trains(small):
    needs = needs_of(small, dense=ModelSize(1000), image=ModelSize(10))
    assert needs["task 'dense': a model of 1,000 weights"] == 16_000
    assert needs["task 'dense': a model of 1,000 weights, at the coordinator,"] == 4_000
    assert needs["task 'dense': the sum of updates of 1,000 weights"] == 12_000
    plain = dataclasses.replace(small, local=dataclasses.replace(small.local, momentum=0.0))
    found = needs_of(plain, dense=ModelSize(1000), image=ModelSize(10))
    assert found["task 'dense': a model of 1,000 weights"] == 12_000


def test_a_batch_is_as_large_as_a_client_or_the_test_split_allows(small_toml):
    sizes = {"dense": ModelSize(1, layer=50, kept=1), "image": ModelSize(1, layer=1, kept=50)}
    big = ("local.batch_size=100000", "evaluate.batch_size=100000")
    needs = needs_of(changed(small_toml, *big), **sizes)
    assert needs["task 'dense': a batch of 100 (evaluate.batch_size = 100,000)"] == 4 * 100 * 50
    (least,) = [what for what in needs if "'image': a batch" in what]
    assert 10 * 50 * 4 <= needs[least] <= 30 * 50 * 4  # points = [10, 30]
    half = needs_of(changed(small_toml, *big, "precision=bf16"), **sizes)
    assert half["task 'dense': a batch of 100 (evaluate.batch_size = 100,000)"] == 2 * 100 * 50


def test_an_aggregator_that_needs_every_update_holds_those_that_a_task_surely_gets(small):
    median = dataclasses.replace(small, aggregator=Median())
    needs = needs_of(median, dense=ModelSize(1000), image=ModelSize(10))
    what = "aggregator.kind = 'median', which holds all of a task's updates (4) in memory,"
    assert needs[what] == 12 * 1000 + 4 * 4 * 10  # 8 are active, for 2 tasks
    assert isinstance(small.aggregator, Mean)


@pytest.mark.parametrize("sets", ["kernel=fast", "kernel=auto", "aggregator.kind=median"])
def test_the_estimate_is_below_what_a_round_takes_and_not_far_below(small_toml, sets):
    """Peak memory of a process of its own, before and after a round of a large model."""
    script = (
        "import re, sys, mmfl; from mmfl.experiment import Inline\n"
        "def peak():\n"  # not ru_maxrss, which begins with that of whoever started the process
        "    told = open('/proc/self/status').read()\n"
        "    return 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', told)[1])\n"
        "of = lambda width: mmfl.Experiment.from_toml(sys.argv[1], sets=['rounds=1', sys.argv[2],\n"
        "    f'tasks.dense.model={{kind=\"mlp\", hidden=[{width}, {width}]}}'])\n"
        "list(mmfl.rounds(of(8)))\n"
        "large = of(2400)\n"
        "engine, before = Inline().open(large, data_dir=None), peak()\n"
        "print(sum(need.bytes for need in engine.needs()))\n"
        "list(mmfl.rounds(large, engine=engine))\n"
        "print(peak() - before)"
    )
    Path("script.py").write_text(script)
    command = [sys.executable, "script.py", small_toml, sets]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    estimate, taken = map(int, done.stdout.split())
    assert 0.5 * taken < estimate < taken


def test_a_model_of_ones_own_is_not_weighed_and_runs(small_toml, tmp_path, monkeypatch):
    (tmp_path / "kept.py").write_text(
        "import dataclasses, functools, torch\n"
        "@functools.cache\n"
        "def scale(): return torch.ones(3)\n"  # on "meta" it would stay there
        "class Net(torch.nn.Linear):\n"
        "    def __init__(self, *sizes):\n"
        "        super().__init__(*sizes)\n"
        "        self.scale = scale()\n"
        "    def forward(self, x): return super().forward(x) * self.scale\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Kept:\n"
        "    def build(self, shape, outputs): return Net(shape[0], outputs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sets = ("tasks.dense.model=kept:Kept", "rounds=1")
    experiment = Experiment.from_toml(small_toml, sets=sets, allow_imports=True)
    assert run(experiment, "out").failed == 0


# Refusals, and when they come


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_model_is_refused_before_it_is_built_and_before_a_folder_is_made(
    small_toml, only, engine
):
    only(machine=20 * GB)
    wide = "tasks.dense.model.hidden=[1000000,1000000]"
    experiment = changed(small_toml, wide, f"engine.kind={engine}")
    said = one_line(ResourceError, lambda: run(experiment, "out"))
    assert said.startswith("task 'dense': a model of 1,000,021,000,003 weights needs about 16 TB")
    assert not Path("out").exists()


def test_workers_are_refused_before_they_are_started(small, only):
    only(machine=20 * GB)
    crowd = dataclasses.replace(small, engine=Local(workers=1000))
    said = one_line(ResourceError, lambda: run(crowd, "out"))
    assert said == (
        "engine.workers = 1,000 needs about 105 MB in each of 1,000 worker processes; 20 GB is free"
    )


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (
            ["tasks.dense.dataset.train=200000000"],
            "task 'dense': its data set needs about 40 GB; 20 GB is free",
        ),
        (
            ["tasks.image.dataset.shape=[100000,100000]"],
            "task 'image': its data set needs about 48 TB; 20 GB is free",
        ),
        (
            [
                "clients.count=500000000",
                "tasks.dense.partition={kind='iid', points=5, overlap=true}",
                "tasks.image.partition={kind='iid', points=5, overlap=true}",
            ],
            "clients.active = 0.8, which means 400,000,000 clients per round, needs about 87 GB; "
            "20 GB is free",
        ),
        (
            [
                "clients.count=2000000000",
                "recruitment.mechanism={kind='gmm_fair', budget=1.0}",
                "recruitment.bids=uniform",
                "tasks.dense.partition={kind='iid', points=5, overlap=true}",
                "tasks.image.partition={kind='iid', points=5, overlap=true}",
            ],
            "clients.count = 2,000,000,000 with an auction of 2 tasks needs about 128 GB; "
            "20 GB is free",
        ),
    ],
)
def test_data_and_clients_are_refused_before_anything_is_drawn(small_toml, only, sets, sentence):
    only(machine=20 * GB)
    experiment = changed(small_toml, *sets)
    assert one_line(ResourceError, lambda: run(experiment, "out")) == sentence
    assert not Path("out").exists()


def test_an_npz_file_is_refused_by_what_its_heads_promise(small_toml, only):
    parts = {"x_train": np.zeros((60, 30000)), "x_test": np.zeros((60, 30000))}
    y = {"y_train": np.arange(60) % 2, "y_test": np.arange(60) % 2}
    np.savez_compressed("zeros.npz", **parts, **y)
    sets = ("tasks.dense.dataset={kind='npz', path='zeros.npz'}", "rounds=1")
    only(machine=20 * GB)
    run(changed(small_toml, *sets), "fine")
    only(machine=28_000_000)
    said = one_line(ResourceError, lambda: run(changed(small_toml, *sets), "out"))
    assert said == "task 'dense': its data set needs about 29 MB; 28 MB is free"


def test_an_engine_that_is_kept_forecasts_for_the_experiment_that_it_serves(small):
    engine = Inline().open(small, data_dir=None)
    bare = dataclasses.replace(small, local=dataclasses.replace(small.local, momentum=0.0))
    before = engine.needs()
    engine.prepare(bare)
    assert engine.needs() == Inline().open(bare, data_dir=None).needs() != before


def test_what_fits_is_not_refused(small, only):
    only(machine=30_000_000)  # the experiment's own needs: some kilobytes
    engine = Inline().open(small, data_dir=None)
    Population.of(engine.federation, small.resolved())
    assert engine.initial()


def test_a_run_that_cannot_be_resumed_for_want_of_memory_is_left_as_it_was(small, only):
    begun = dataclasses.replace(small, rounds=1)
    run(begun, "out")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    only(machine=5000)
    refuse = memory.refuse
    with pytest.MonkeyPatch.context() as patched:  # as if these were gigabytes
        now = Memory.now()
        patched.setattr("mmfl.engines.inline.refuse", lambda needs: refuse(needs, memory=now))
        said = one_line(ResourceError, lambda: run(small, "out", resume=True))
    assert said.endswith("5.0 kB is free")
    assert {p: p.read_bytes() for p in Path("out").rglob("*") if p.is_file()} == before
    assert run(small, "out", resume=True).rounds == 3


# From end to end


def limited(limit: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line under a limit on addresses."""
    return subprocess.run(
        [sys.executable, "-m", "mmfl", *arguments],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("check",), ("run", "--set", "engine={workers=1}", "--out", "out")],
)
def test_under_a_limit_a_large_model_is_one_sentence_and_a_small_one_runs(small_toml, command):
    Path("small.toml").write_text(small_toml)
    name, *options = command
    large = ("--set", "tasks.dense.model.hidden=[20000,20000]")
    found = limited(3 * 2**30, name, "small.toml", *options, *large)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("mmfl: ")
    assert re.search("task 'dense': .* of 400,420,003 weights needs about", found.stderr)
    assert found.stderr.endswith("(ulimit -v)\n")
    assert found.stderr.count("\n") == 1
    assert not Path("out").exists()
    fine = limited(3 * 2**30, name, "small.toml", *options)
    assert fine.returncode == 0, fine.stderr


@pytest.mark.slow
def test_memory_that_runs_out_all_the_same_is_one_sentence(small_toml, tmp_path):
    Path("small.toml").write_text(small_toml)
    Path("greedy.py").write_text(
        "import dataclasses, numpy as np\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Greedy:\n"
        "    def allocate(self, view, state, *, rng): return np.ones(10**15), state\n"
    )
    options = ("--allow-imports", "--set", "allocator=greedy:Greedy", "--out", "out")
    found = limited(resource.RLIM_INFINITY, "run", "small.toml", *options)
    assert found.returncode == 2
    assert found.stderr.startswith(
        "mmfl: the allocator Greedy() failed: out of memory: Unable to allocate 7.11 PiB"
    )
    assert found.stderr.count("\n") == 1
    assert memory.describe_shortage(MemoryError()) is not None
