"""Whatever code of the user's raises, in any family, is one sentence: part, file and line."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
import mmfl.cli
from mmfl import Experiment
from mmfl.comparison import compare
from mmfl.config import Family
from mmfl.errors import ConfigError, EngineError, MmflError
from support import failing
from support.experiments import write_small
from support.helpers import one_line

PARTS = {
    "aggregator": ("aggregator", "Aggregator", "task 'a': the aggregator Aggregator("),
    "allocator": ("allocator", "Allocator", "the allocator Allocator() failed"),
    "lazy allocator": ("allocator", "LazyAllocator", "the allocator LazyAllocator() failed"),
    "bid model": (
        "recruitment={{mechanism={{kind='max_min_fair',budget=6.0}},bids='{}'}}",
        "Bids", "task 'a': the bid model Bids() failed",
    ),
    "data set": ("tasks.a.dataset", "Dataset", "task 'a': its data cannot be loaded"),
    "data set function": ("tasks.a.dataset", "fail", "task 'a': its data cannot be loaded"),
    "engine": ("engine={{kind='{}'}}", "Engine", "the engine Engine() failed"),
    "lazy engine": ("engine={{kind='{}'}}", "LazyEngine", "the engine Own failed"),
    "learning rate": (
        "local.lr={{kind='{}'}}", "Schedule", "task 'a': the learning rate Schedule() failed",
    ),
    "loss": ("tasks.a.loss", "Loss", "task 'a': its loss or metric fails"),
    "loss function": ("tasks.a.loss", "fail", "task 'a': its loss or metric fails"),
    "mechanism": (
        "recruitment={{mechanism={{kind='{}'}},bids='uniform'}}",
        "Mechanism", "the mechanism Mechanism() failed",
    ),
    "metric": ("tasks.a.metric", "Metric", "task 'a': the metric Metric() failed"),
    "lazy metric": ("tasks.a.metric", "LazyMetric", "task 'a': its loss or metric fails"),
    "pooled metric": (
        "tasks.a.metric", "PooledMetric", "task 'a': the metric PooledMetric() failed",
    ),
    "lazy pooled metric": (
        "tasks.a.metric", "LazyPooledMetric", "task 'a': the metric LazyPooledMetric() failed",
    ),
    "doubting metric": (
        "tasks.a.metric", "DoubtingMetric", "task 'a': the metric DoubtingMetric() failed",
    ),
    "misbehaviour": (
        "faults={{clients=[{{share=1.0,does='{}'}}]}}",
        "Misbehaviour", "task 'a': the misbehaviour Misbehaviour() failed",
    ),
    "model": ("tasks.a.model", "Model", "task 'a': its model cannot be built"),
    "normalization": (
        "tasks.a.normalize", "Normalization", "task 'a': the normalization Normalization() failed",
    ),
    "optimizer": ("local.optimizer", "Optimizer", "task 'a': its optimizer cannot be used"),
    "partition": ("tasks.a.partition", "Partition", "task 'a': its partition failed"),
    "lazy partition": ("tasks.a.partition", "LazyPartition", "task 'a': its partition failed"),
    "partition function": ("tasks.a.partition", "fail", "task 'a': its partition failed"),
    "score": ("score", "Score", "task 'a': the score Score() failed"),
    "speed": ("faults={{speed={{kind='{}'}}}}", "Speed", "the speed Speed() failed"),
}  # fmt: skip
"""From a family, or another way in which a member of it fails, to key, class and sentence."""

_FEW = ["ValueError", "GeneratorExit", "Exit", "Odd"]


def make(part: str, *sets: str, engine: str = 'kind = "inline"') -> Experiment:
    key, name, _ = PARTS[part]
    sets = (*sets, "score_source=clients") if part == "doubting metric" else sets
    own = key.format(f"support.failing:{name}") if "{" in key else f"{key}=support.failing:{name}"
    text = write_small("a", "b", train=40, test=10, engine=engine)
    return Experiment.from_toml(text, sets=[*sets, own], allow_imports=True)


def check(sentence: str, start: str, error: str) -> None:
    said = error if error != "MemoryError" else "out of memory"
    assert sentence.startswith(start)
    assert re.search(rf": {said}\b.* \(failing\.py, line \d+, in .*: .*\)$", sentence), sentence


def test_no_family_is_forgotten():
    names = [m.name for m in pkgutil.walk_packages(mmfl.__path__, "mmfl.")]
    modules = [importlib.import_module(n) for n in names if not n.endswith("__main__")]
    found = {v for module in modules for v in vars(module).values() if isinstance(v, Family)}
    families = {family.name for family in found} - {"source of bids"}  # a bid model, or a file
    families -= {"claim", "panel"}  # of `mmfl reproduce`, which imports nothing
    assert families <= set(PARTS)


@pytest.mark.parametrize("error", failing.ERRORS)
@pytest.mark.parametrize("part", PARTS)
def test_whatever_a_part_raises_is_one_sentence(part, error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    experiment = make(part)
    with pytest.raises(MmflError) as caught:
        list(mmfl.rounds(experiment))
    check(str(caught.value), PARTS[part][2], error)
    assert caught.value.__cause__ is failing.ERRORS[error]


@pytest.mark.parametrize("error", _FEW)
@pytest.mark.parametrize("part", ["lazy metric", "lazy pooled metric", "normalization"])
def test_it_is_the_same_sentence_with_workers(part, error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    found = []
    for engine in ('kind = "inline"', 'kind = "local"\nworkers = 1'):
        with pytest.raises(MmflError) as caught:
            list(mmfl.rounds(make(part, engine=engine)))
        found.append(caught.value)
    first, second = map(str, found)
    check(first, PARTS[part][2], error)
    assert first == second
    assert found[0].__cause__ is failing.ERRORS[error]
    if not isinstance(found[1].__cause__, type(failing.ERRORS[error])):  # it was in a worker
        assert '/failing.py", line' in str(found[1].__cause__)
        assert error in str(found[1].__cause__).splitlines()[-2]


@pytest.mark.parametrize("error", _FEW)
def test_a_turn_that_fails_is_the_same_failure_with_workers(error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    found = []
    for engine in ('kind = "inline"', 'kind = "local"\nworkers = 1'):
        experiment = make("model", "rounds=1", engine=engine)
        own = replace(experiment.tasks[0], model=failing.LazyModel())
        experiment = replace(experiment, tasks=(own, experiment.tasks[1]))
        ((_, record),) = mmfl.rounds(experiment)
        found.append([(f.address.client, f.reason, f.detail) for f in record.failures])
        for failure in record.failures:
            assert '/failing.py", line' in failure.trace
            assert error in failure.trace.splitlines()[-1]
    assert found[0] == found[1]
    reasons = {(reason, detail) for _, reason, detail in found[0]}
    assert len(reasons) == 1
    check(": ".join(reasons.pop()), f"raised: {error}", error)


def test_a_client_that_lies_about_its_own_data_and_fails_is_one_sentence(monkeypatch):
    monkeypatch.setenv("FAILS", "Exit")
    lies = "faults={clients=[{share=1.0,does='support.failing:Witness'}]}"
    sets = ["score_source=clients", lies]
    experiment = Experiment.from_toml(write_small("a"), sets=sets, allow_imports=True)
    said = one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    check(said, "task 'a': the misbehaviour Witness() failed", "Exit")


@pytest.mark.parametrize("error", ["ValueError", "Exit", "GeneratorExit"])
def test_an_augmentation_that_fails_is_one_sentence(error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    small = write_small("a").replace("train = 60", "shape = [4, 4], train = 60")
    experiment = Experiment.from_toml(small)
    task = replace(experiment.tasks[0], augment=failing.Augmentation(flip=True))
    experiment = replace(experiment, tasks=(task,))
    said = one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    check(said, "task 'a': its examples cannot be prepared", error)


@pytest.mark.parametrize("error", [e for e in failing.ERRORS if e != "ValueError"])
def test_a_class_that_cannot_be_made_is_a_mistake_in_the_experiment(error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    sets = ["allocator.kind=support.failing:Made"]
    said = one_line(
        ConfigError, lambda: Experiment.from_toml(write_small(), sets=sets, allow_imports=True)
    )
    check(said, "allocator.kind: 'support.failing:Made' cannot be created", error)


def test_code_that_is_not_a_part_is_your_code(monkeypatch):
    monkeypatch.setenv("FAILS", "Exit")
    sets = ["allocator.kind=support.failing:Attribute"]
    experiment = Experiment.from_toml(write_small(), sets=sets, allow_imports=True)
    check(one_line(EngineError, lambda: list(mmfl.rounds(experiment))), "your code failed", "Exit")


@pytest.mark.parametrize("error", ["GeneratorExit", "Odd", "Exit"])
def test_a_run_whose_allocator_fails_is_stored_as_failed(error, monkeypatch):
    monkeypatch.setenv("FAILS", error)
    check(one_line(EngineError, lambda: mmfl.run(make("allocator"), "out")), "the alloc", error)
    assert mmfl.Run.load("out").status == "failed"


@pytest.mark.parametrize("error", ["Exit", "BrokenPipeError", "OSError", "SystemExit"])
def test_a_command_never_ends_in_silence(error, monkeypatch, capfd):
    monkeypatch.setenv("FAILS", error)
    Path("small.toml").write_text(write_small())
    own = "local.lr.kind=support.failing:Schedule"
    words = ["mmfl", "run", "small.toml", "--allow-imports", "--set", own]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        mmfl.cli.main()
    assert end.value.code == 2
    check(capfd.readouterr().err.strip(), "mmfl: task 'a': the learning rate Schedule() f", error)


def handler(number, frame):
    signal.signal(number, signal.SIG_DFL)
    sys.exit(7)


class Stopping:
    def __call__(self, *_):
        sys.exit(7)

    def stop(self, *_):
        sys.exit(7)


HANDLERS: dict[str, Callable[..., object]] = {
    "lambda": lambda *_: sys.exit(7),
    "function": handler,
    "object": Stopping(),
    "method": Stopping().stop,
}


@pytest.mark.parametrize("how", HANDLERS)
@pytest.mark.parametrize("when", ["built", "trained", "called"])
def test_a_signal_handler_of_the_program_ends_it(small, how, when):
    task = replace(small.tasks[0], model=failing.Signalled(when))
    before = signal.signal(signal.SIGUSR1, HANDLERS[how])
    try:
        with pytest.raises(SystemExit) as end:
            list(mmfl.rounds(replace(small, tasks=(task,))))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert end.value.code == 7


def time_out(number, frame):
    raise TimeoutError("the program's time is over")


@pytest.mark.parametrize("when", ["built", "trained", "called"])
def test_an_error_of_a_signal_handler_of_the_program_is_its_own(small, when):
    task = replace(small.tasks[0], model=failing.Signalled(when))
    before = signal.signal(signal.SIGUSR1, time_out)
    try:
        with pytest.raises(TimeoutError, match="the program's time is over"):
            list(mmfl.rounds(replace(small, tasks=(task,))))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_error_of_a_signal_handler_of_the_program_ends_a_comparison(small):
    task = replace(small.tasks[0], model=failing.Signalled("trained"))
    before = signal.signal(signal.SIGUSR1, time_out)
    try:
        with pytest.raises(TimeoutError):
            compare({"x": replace(small, tasks=(task,))}, [0, 1], "out")
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kept", [True, False])
def test_an_error_of_a_signal_handler_of_a_part_is_the_parts(small, kept):
    task = replace(small.tasks[0], model=failing.Limited(kept))
    before = signal.getsignal(signal.SIGUSR1)
    try:
        _, record = next(mmfl.rounds(replace(small, tasks=(task,))))
    finally:
        signal.signal(signal.SIGUSR1, before)
    (detail,) = {failure.detail for failure in record.failures}
    check(detail, "TimeoutError: too slow", "too slow")


def test_ctrl_c_in_a_group_is_ctrl_c(monkeypatch):
    group = BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("plain")])
    monkeypatch.setitem(failing.ERRORS, "Ctrl-C", group)
    monkeypatch.setenv("FAILS", "Ctrl-C")
    with pytest.raises(KeyboardInterrupt):
        list(mmfl.rounds(make("allocator")))
