"""Rules that a user wrote, and that fail: one sentence that says what failed, and where."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.aggregate import Mean
from mmfl.allocate import Uniform
from mmfl.engines import InlineEngine
from mmfl.errors import DataError, EngineError
from mmfl.exchange import Layout, Params
from support.experiments import write_small
from support.helpers import one_line


@dataclass(frozen=True)
class Wrong:
    """`Uniform`, but what `how` says happens."""

    how: str

    def allocate(self, view, state, *, rng):
        given, state = Uniform().allocate(view, state, rng=rng)
        match self.how:
            case "exits":
                sys.exit(0)
            case "raises":
                raise BrokenPipeError(32, "Broken pipe")
            case "forgets the state":
                return given
            case "has no probabilities":
                return [(client, task) for client, task, _ in given], state
            case "is rough":
                np.zeros(3)[5]
            case "changes the clients":
                view.clients[:] = 0
            case "changes who may train":
                view.eligible[:] = True
        return given, state


@dataclass(frozen=True)
class Large:
    """`Uniform` with a long text; it counts how often that is asked for."""

    numbers: tuple[float, ...]
    fails: bool = False
    printed: ClassVar[list[int]] = []

    def allocate(self, view, state, *, rng):
        if self.fails:
            raise ValueError("plain")
        return Uniform().allocate(view, state, rng=rng)

    def __repr__(self):
        self.printed.append(1)
        return f"Large({self.numbers!r})"


def test_a_part_is_printed_only_if_it_fails_and_not_at_full_length(small):
    large = Large(tuple(map(float, range(20_000))))
    Large.printed.clear()
    list(mmfl.rounds(replace(small, allocator=large)))
    assert not Large.printed
    failing = replace(small, allocator=replace(large, fails=True))
    said = one_line(EngineError, lambda: list(mmfl.rounds(failing)))
    assert said.startswith("the allocator Large((0.0, 1.0, 2.0,")
    assert "... failed: ValueError: plain (test_rule_errors.py, line" in said
    assert len(said) < 350


@dataclass(frozen=True)
class Exiting:
    def difficulty(self, measured, task):
        sys.exit("enough")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            "exits",
            "the allocator Wrong(how='exits') failed: SystemExit: 0 (test_rule_errors.py, line",
        ),
        ("raises", "failed: BrokenPipeError: [Errno 32] Broken pipe (test_rule_errors.py, line"),
        ("is rough", "failed: IndexError: index 5 is out of bounds"),
        ("changes the clients", "failed: ValueError: assignment destination is read-only"),
        ("changes who may train", "failed: ValueError: assignment destination is read-only"),
        ("forgets the state", "must return (assignments, state), got Assignments("),
        ("has no probabilities", "its assignments as (client, task, probability) each, got [("),
    ],
)
def test_an_allocator_that_fails_is_one_sentence(small, how, sentence):
    experiment = replace(small, allocator=Wrong(how))
    assert sentence in one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    assert sentence in one_line(EngineError, lambda: mmfl.run(experiment, "out"))
    assert mmfl.Run.load("out").status == "failed"


def test_a_score_that_ends_the_program_is_one_sentence(small):
    said = one_line(EngineError, lambda: list(mmfl.rounds(replace(small, score=Exiting()))))
    assert said.startswith(
        "task 'dense': the score Exiting() failed: SystemExit: enough (test_rule_errors.py, line"
    )


@dataclass(frozen=True)
class Failing(Mean):
    """`Mean`, but it cannot add."""

    def aggregate(self, params, updates, difficulty, state):
        raise ArithmeticError("no sum")


def test_an_aggregator_that_fails_is_one_sentence(small):
    said = one_line(EngineError, lambda: list(mmfl.rounds(replace(small, aggregator=Failing()))))
    where = r"\(test_rule_errors.py, line \d+, in [\w.]+: .*\)"
    assert re.fullmatch(
        rf"task 'dense': the aggregator Failing\(.*\) failed: ArithmeticError: no sum {where}", said
    )


@dataclass(frozen=True)
class Careful(Mean):
    """`Mean` in code of the user's."""

    def aggregate(self, params, updates, difficulty, state):
        return super().aggregate(params, iter(list(updates)), difficulty, state)


def fail_later(results):
    """One result, and then an error that is raised in no code of the user's."""
    return chain(islice(results, 1), map({}.__getitem__, ["a defect"]))


def test_an_error_of_an_engine_is_not_blamed_on_the_aggregator_that_asks_it(small, monkeypatch):
    train = InlineEngine.train
    monkeypatch.setattr(InlineEngine, "train", lambda *a, **k: fail_later(train(*a, **k)))
    with pytest.raises(KeyError, match="a defect"):
        list(mmfl.rounds(replace(small, aggregator=Careful())))


def test_an_error_of_the_users_engine_is_the_engines_whoever_asks_it(small):
    class Own(InlineEngine):
        def train(self, *args, **options):
            yield from fail_later(super().train(*args, **options))

    experiment = replace(small, aggregator=Careful())
    with closing(Own(experiment, None)) as engine:
        said = one_line(EngineError, lambda: list(mmfl.rounds(experiment, engine=engine)))
    where = r"\(test_rule_errors.py, line \d+, in [\w.]+: .*\)"
    assert re.fullmatch(rf"the engine Own failed: KeyError: 'a defect' {where}", said)


@dataclass(frozen=True)
class Careless(Mean):
    """`Mean`, but it returns what `how` says."""

    how: str = ""

    def aggregate(self, params, updates, difficulty, state):
        new, state = super().aggregate(params, updates, difficulty, state)
        match self.how:
            case "nan":
                new.flat[-1] = np.nan
            case "inf":
                new.flat[0] = -np.inf
            case "array":
                return new.flat, state
            case "masked":
                return Params(new.layout, np.ma.masked_array(new.flat)), state
            case "weights":
                return new
            case "other":
                return Params(Layout((("w", new.flat.shape),)), new.flat), state
        return new, state


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("nan", "must return finite weights, got NaN or infinity"),
        ("inf", "must return finite weights, got NaN or infinity"),
        ("array", "must return its weights as Params(params.layout, flat), got array("),
        ("masked", "must return a plain NumPy array of float32, got float32 in a MaskedArray"),
        ("weights", "must return (params, state), got Params("),
        ("other", "must return weights with the layout of params"),
    ],
)
def test_an_aggregator_that_returns_something_else_is_one_sentence(small, how, sentence):
    experiment = replace(small, aggregator=Careless(how=how))
    said = one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    assert said.startswith(f"task 'dense': the aggregator Careless(how='{how}') {sentence}")


def test_an_error_that_is_none_of_the_users_stays_as_it_is(small, monkeypatch):
    ours: dict[str, Any] = {"__name__": "mmfl.allocate.rules.uniform"}
    text = "def allocate(self, view, state, *, rng): return 1 / 0"
    exec(text, ours)
    monkeypatch.setattr(Uniform, "allocate", ours["allocate"])
    with pytest.raises(ZeroDivisionError):
        list(mmfl.rounds(replace(small, allocator=Uniform())))


DATA = """
import sys
import numpy as np

def exits():
    sys.exit(0)

def by_turns(examples, clients, rng):
    sys.exit(0)
"""


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"dataset": "ending:exits"},
            "its data cannot be loaded: SystemExit: 0 (ending.py, line 6, in exits: sys.exit(0))",
        ),
        (
            {"partition": "ending:by_turns"},
            "its partition failed: SystemExit: 0 (ending.py, line 9, in by_turns: sys.exit(0))",
        ),
    ],
)
def test_data_and_partitions_that_end_the_program_are_one_sentence(
    keys, sentence, tmp_path, monkeypatch
):
    (tmp_path / "ending.py").write_text(DATA)
    monkeypatch.syspath_prepend(tmp_path)
    sets = [f"tasks.a.{key}={value}" for key, value in keys.items()]
    experiment = Experiment.from_toml(write_small("a"), sets=sets, allow_imports=True)
    assert one_line(DataError, lambda: list(mmfl.rounds(experiment))) == f"task 'a': {sentence}"


@dataclass(frozen=True)
class Overwriting:
    """A normalization that writes into the data."""

    def scaling(self, data):
        data.x_train[:] = 0


def test_a_normalization_cannot_change_the_data(small):
    tasks = tuple(replace(task, normalize=Overwriting()) for task in small.tasks)
    with pytest.raises((ValueError, mmfl.errors.MmflError), match="read-only"):
        list(mmfl.rounds(replace(small, tasks=tasks)))


RATES = {
    "float32": np.float32(0.5),
    "array": np.array(0.5),
    "none": None,
    "text": "0.5",
    "large": 10**400,
    "nan": float("nan"),
}


@dataclass(frozen=True)
class Rate:
    which: str

    def rate(self, t):
        return RATES[self.which]


@pytest.mark.parametrize("which", ["float32", "array"])
def test_a_learning_rate_is_a_plain_number_before_jobs_are_made(small, which):
    local = replace(small.local, lr=Rate(which))
    assert type(local.work(0).lr) is float
    assert local.work(0).lr == 0.5


@pytest.mark.parametrize(
    ("which", "given"),
    [("none", "None"), ("text", "'0.5'"), ("large", "1000"), ("nan", "nan")],
)
def test_a_schedule_that_gives_no_number_is_one_sentence(small, which, given):
    experiment = replace(small, local=replace(small.local, lr=Rate(which)))
    said = one_line(EngineError, lambda: list(mmfl.rounds(experiment)))
    who = f"the learning rate Rate(which='{which}')"
    assert said.startswith(f"{who} must return a finite number, got {given}")
