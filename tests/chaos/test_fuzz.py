"""The short version of ``make fuzz``: some mutated inputs, in this process.

And the judge itself: what it must let pass, and what it must not.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chaos.mutated_inputs import Case, bids_case, config_case
from chaos.sandbox import Ended, Outcome, Sandbox
from chaos.seeds import experiments, markets, words
from chaos.verdict import GOOD, verdict
from mmfl.data import embedded
from mmfl.experiment import Experiment
from mmfl.system.memory import Memory

NUMBERS = st.integers(0, 10**9)
# Numbers of cases have no order in which one would be simpler than another.
plainly = functools.partial(settings, phases=[Phase.generate])


def in_process(work: Callable[[], None], outside: Path) -> Ended:
    """Do it here, and put everything back."""
    out, err, start, code = StringIO(), StringIO(), time.monotonic(), 0
    surroundings = (
        mock.patch.dict(os.environ),
        mock.patch.object(sys, "argv", []),
        chdir(outside),
        warnings.catch_warnings(),
        redirect_stdout(out),
        redirect_stderr(err),
    )
    with surroundings[0], surroundings[1], surroundings[2], surroundings[3]:
        warnings.simplefilter("always")
        with surroundings[4], surroundings[5]:
            try:
                work()
            except SystemExit as end:
                code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue(), time.monotonic() - start, False


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A machine of one gigabyte, so that nothing here takes long or much."""
    little = classmethod(lambda cls: Memory(machine=10**9))
    with (
        mock.patch.object(embedded, "load", functools.cache(embedded.load)),
        mock.patch.object(Memory, "now", little),
    ):
        yield Sandbox(tmp_path_factory.mktemp("chaos") / "here", in_process)


def judge(sandbox: Sandbox, case: Case) -> None:
    found = sandbox.run(case)
    assert verdict(case, found) in GOOD, (case.changes, case.content, found)


@plainly(max_examples=30)
@given(number=NUMBERS)
def test_a_mutated_experiment_is_valid_or_one_located_sentence(sandbox, number):
    judge(sandbox, config_case(0, number))


@plainly(max_examples=25)
@given(number=NUMBERS)
def test_a_mutated_table_of_bids_is_valid_or_one_located_sentence(sandbox, number):
    judge(sandbox, bids_case(0, number))


# What mutation starts from


def test_mutation_starts_from_what_is_sound(sandbox):
    import tomli_w

    for number, table in enumerate([*experiments(), *markets()]):
        market = isinstance(table["clients"], int)
        command = ("auction", "run", "case.toml", "-b", "2") if market else ("check", "case.toml")
        content = tomli_w.dumps(table).encode()
        case = Case(command, "case.toml", content, (), words())
        assert verdict(case, sandbox.run(case)) == "valid", number


@pytest.mark.slow
def test_every_section_and_kind_of_the_schema_is_tried():
    missing = {*Experiment.json_schema()["properties"], *words()}
    for number in range(12_000):
        text = (config_case(0, number).content or b"").decode("utf-8", "replace")
        missing = {word for word in missing if word not in text}
        if not missing:
            return
    assert missing == set()


def test_a_case_is_fixed_by_seed_and_number():
    for make in (config_case, bids_case):
        assert make(3, 17) == make(3, 17)
        assert len({make(3, number).content for number in range(50)}) > 40
        assert make(3, 17) != make(4, 17)


# The judge


def said(err: str, code: int = 2, out: str = "", **more: object) -> str:
    keys = frozenset({"clients", "a", "odd key", "x" * 90})
    case = Case(("check", "case.toml"), "case.toml", b"", (), keys)
    return verdict(case, Outcome(code, out, err, 0.1, **more))


@pytest.mark.parametrize(
    "sentence",
    [
        "case.toml: clients must be a table, got 3",
        "case.toml: task 'a': its data set needs about 3 GB; 1 GB is free",
        "case.toml: clients.count must be a whole number, got 2.5",
        "case.toml: raise clients.count",
        "case.toml: 'odd key' is not a known key; known: rounds",
        f"case.toml: '{'x' * 56}... is not a known key; known: rounds",
        "case.toml: needs [[clients]]",
        "case.toml: with clients = 3 nobody is active",
        "case.toml, line 7: is not UTF-8 text",
        "cannot read 'case.toml': Is a directory",
    ],
)
def test_a_located_sentence_passes(sentence):
    assert said(f"mmfl: {sentence}\n") == "refused"


def test_only_check_lists_several_mistakes():
    two = "mmfl: case.toml: clients\nmmfl: case.toml: a.b is not known\n"
    assert said(two) == "refused"
    auction = Case(("auction", "run", "case.toml"), "case.toml", b"", (), frozenset({"clients"}))
    assert verdict(auction, Outcome(2, "", two, 0.1)) == "several lines"


def test_a_valid_input_may_be_warned_of_in_our_words():
    assert said("", 0, "fine\n") == "valid"
    assert said("mmfl: warning: nobody trains a\n", 0, "fine\n") == "valid"
    foreign = "mmfl: warning: RuntimeWarning: overflow encountered in cast\n"
    assert said(foreign, 0, "fine\n") == "complaints"


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ({"err": "mmfl: clients must be a table\n"}, "not located"),
        ({"err": "mmfl: case.toml: is wrong\n"}, "not located"),
        ({"err": "mmfl: case.toml: there is a mistake\n"}, "not located"),
        ({"err": "mmfl: case.toml: of the clients nobody is active\n"}, "not located"),
        ({"err": "mmfl: case.toml: myclients is wrong\n"}, "not located"),
        ({"err": "case.toml: clients must be a table\n"}, "no sentence"),
        ({"err": "mmfl: case.toml: clients\x1b[31m\n"}, "no sentence"),
        ({"err": f"mmfl: case.toml: clients {'x' * 2000}\n"}, "no sentence"),
        ({"err": "mmfl: warning: a\nmmfl: case.toml: clients\n"}, "not located"),
        ({"err": ""}, "silent"),
        ({"err": "mmfl: case.toml: clients\n", "out": "task a: fine\n"}, "partial output"),
        ({"err": "mmfl: case.toml: clients\n", "left": ("runs",)}, "left files behind"),
        ({"err": "mmfl: case.toml: clients\n", "slow": True}, "too slow"),
        ({"err": "mmfl: case.toml: clients\n", "code": 1}, "exit code 1"),
        ({"err": "", "code": -9}, "signal 9"),
        ({"err": "", "code": 0}, "nothing was said"),
        ({"err": "Traceback (most recent call last):\n ...\nError\n", "code": 1}, "traceback"),
        ({"err": "Usage: mmfl check\n\nError: no such option\n"}, "no sentence"),
    ],
)  # fmt: skip
def test_everything_else_is_a_failure(outcome, word):
    assert said(**outcome) == word
    assert word not in GOOD
