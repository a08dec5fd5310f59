"""Times to an accuracy, and runs that never reach it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mmfl.errors import ConfigError
from mmfl.report import Variant
from mmfl.reproduce import find_time, make_times
from mmfl.reproduce.claims import Gain
from mmfl.reproduce.times import count_censored
from support.helpers import one_line
from support.made_runs import curves

RUN = replace(
    curves([[0.1, 0.9], [0.6, 0.2], [0.3, 0.6], [0.5, 0.5]]),
    virtual=np.array([1.0, 2.0, 4.0, 8.0]),
    targets={"a": 0.5, "b": 0.95},
)


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("rounds to 0.3", 3.0, 3),  # both tasks at once
        ("rounds of a to 0.3", 2.0, 2),
        ("seconds to 0.3", 7.0, 3),
        ("seconds of b to .9", 1.0, 1),
        ("rounds of a to target", 2.0, 2),
        ("rounds of b to target", 4.0, None),  # never: the length of the run
        ("seconds of b to target", 15.0, None),
        ("rounds to target", 4.0, None),
    ],
)
def test_a_time_is_that_of_the_first_round(name, value, number):
    time = find_time(name)
    assert (time.of(RUN), time.find_round(RUN)) == (value, number)


def test_where_lower_is_better_a_target_is_reached_from_above():
    run = replace(curves([[0.9], [0.4], [0.6]]), better=("lower",), targets={"a": 0.5})
    assert find_time("rounds of a to target").of(run) == 2.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("seconds to 0.3", {"virtual": None}),
        ("rounds of a to target", {"targets": {}}),
        ("rounds to target", {"targets": {"a": 0.5}}),
    ],
)
def test_without_targets_or_speeds_no_time_is_known(name, change):
    run, time = replace(RUN, **change), find_time(name)
    assert math.isnan(time.of(run))
    assert count_censored(time, [run]) == 0
    runs = {name: Variant(name, {0: run}) for name in ("one", "other")}
    assert Gain("x", "here", "one", ("other",), name).check({"here": runs}) is None


@pytest.mark.parametrize("goal", ["0.3", "target"])
def test_an_unknown_task_is_one_sentence(goal):
    time = find_time(f"rounds of z to {goal}")
    assert "no task 'z'" in one_line(ConfigError, lambda: time.of(RUN))


@pytest.mark.parametrize("name", ["worst", "rounds", "rounds to", "rounds to 5", "minutes to 0.5"])
def test_other_names_are_no_times(name):
    assert find_time(name) is None


def test_claims_and_tables_count_the_runs_that_never_get_there():
    slow = replace(RUN, metric=np.full((4, 2), 0.1))
    variants = {
        "fast": Variant("fast", {0: RUN, 1: RUN}),
        "slow": Variant("slow", {0: RUN, 1: slow}),
    }
    gain = Gain("x", "here", "fast", ("slow",), "rounds of a to target")
    outcome = gain.check({"here": variants})
    assert outcome.spread.mean == -1.0
    assert outcome.detail == "against slow; slow does not reach it in 1 of 2 runs"
    table = make_times({"here": variants}, "rounds")
    assert table.head == ["setting", "task", "target", "fast", "slow"]
    assert table.rows[0] == ["here", "a", ".50", "2.0 ±.0", ">3.0 ±1.4 (1/2)"]
    seconds = make_times({"here": variants}, "seconds")
    assert seconds.rows[1][3] == "never"


def test_runs_without_targets_or_speeds_have_no_table():
    plain = {"here": {"one": Variant("one", {0: replace(RUN, targets={})})}}
    assert make_times(plain, "rounds") is None
    still = {"here": {"one": Variant("one", {0: replace(RUN, virtual=None)})}}
    assert make_times(still, "seconds") is None
