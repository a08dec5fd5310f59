"""A few of the failing calls of ``make chaos``."""

from __future__ import annotations

import random

import pytest

from chaos.calls.injector import FAILURES, Injector
from chaos.calls.run import Harness, plan_cases, warm_up
from chaos.calls.scenarios import SCENARIOS
from mmfl.system import calls

RUN = next(scenario for scenario in SCENARIOS if scenario.name == "run")


def test_every_call_that_there_is_can_be_made_to_fail():
    assert set(FAILURES) == set(calls.NAMES)


def test_each_call_gets_its_failures_and_a_kill():
    cases = plan_cases(["open", "write", "now"], None, random.Random(0))
    assert {how for number, how in cases if number == 1} == {*FAILURES["open"], "kill"}
    assert {number for number, _ in cases} == {1, 2, 3}
    once = plan_cases(["open", "write", "now"], 1, random.Random(0))
    assert [number for number, _ in once] == [1, 1, 2, 2, 3, 3]


def test_few_calls_of_each_name_may_be_taken():
    names = ["open", "write", "open", "write", "write", "now"]
    cases = plan_cases(names, 1, random.Random(0), few=2)
    assert len(cases) == 2 * (2 + 2 + 1)
    assert {names[number - 1] for number, _ in cases} == {"open", "write", "now"}


def test_the_injector_strikes_once_or_for_good(tmp_path):
    with calls.intercept(Injector(2, "EIO")):
        calls.perf_counter()
        with pytest.raises(OSError, match="Input/output error"):
            calls.status(tmp_path)
        calls.status(tmp_path)
    with calls.intercept(Injector(1, "EACCES+")):
        for _ in range(2):
            with pytest.raises(PermissionError):
                calls.status(tmp_path)
        calls.list_folder(tmp_path)
    before = calls.now()
    with calls.intercept(Injector(1, "back")):
        assert calls.now() < before - 80_000
        assert calls.now() < before - 80_000


def test_a_run_keeps_its_promises_whatever_call_fails(tmp_path):
    warm_up()
    harness = Harness(RUN, tmp_path)
    cases = plan_cases(harness.names, 1, random.Random(3))
    for number, how in random.Random(3).sample(cases, 12):
        broken, outcome = harness.examine(number, how)
        assert not broken, (number, harness.names[number - 1], how, outcome)
