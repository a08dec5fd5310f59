"""Claims: the number, its interval, the verdict; and what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.errors import ConfigError
from mmfl.report import Variant
from mmfl.reproduce.claims import Gain, Hardest, Trend, Value
from mmfl.reproduce.quantities import find_quantity, scale_round
from mmfl.reproduce.reproduction import Finding
from support.helpers import one_line
from support.made_runs import curves


def variant(name, levels, *, seeds=4, rounds=20, noise=0.001, clients=None):
    """Tasks that stay at these levels, with a little noise that differs from seed to seed."""
    runs = {}
    for seed in range(seeds):
        shift = noise * (seed - (seeds - 1) / 2)
        runs[seed] = curves(np.tile(np.add(levels, shift), (rounds, 1)), clients)
    return Variant(name, runs)


RUNS = {
    "here": {
        "ours": variant("ours", [0.5, 0.6], noise=0.002),
        "low": variant("low", [0.3, 0.9]),
        "high": variant("high", [0.45, 0.8]),
    }
}


def gain(**changes):
    given = {"says": "x", "setting": "here", "of": "ours", "over": ("low", "high")}
    return Gain(**given | changes).check(RUNS)


def test_a_gain_is_over_the_best_of_the_others():
    found = gain()
    assert found.spread.mean == pytest.approx(0.05)
    assert found.detail == "against high"
    assert found.verdict == "holds"
    assert found.interval[0] < 0.05 < found.interval[1]


def test_a_gain_that_is_a_loss_fails():
    assert gain(of="low", over=("ours",)).verdict == "fails"
    assert gain(of="ours", over=("high",), quantity="mean").verdict == "fails"


def test_a_margin_lets_a_small_loss_pass():
    loss = gain(quantity="mean", over=("high",))
    assert loss.spread.mean == pytest.approx(-0.075)
    assert gain(quantity="mean", over=("high",), margin=0.1).verdict == "holds"


def test_a_lower_variance_is_a_gain():
    found = gain(quantity="variance", over=("low",))
    assert found.spread.mean == pytest.approx(0.05**2 - 0.3**2)
    assert found.verdict == "holds"


def test_one_seed_decides_nothing():
    runs = {"here": {n: Variant(n, {0: v.runs[0]}) for n, v in RUNS["here"].items()}}
    found = Gain("x", "here", "ours", ("high",)).check(runs)
    assert (found.verdict, found.interval) == ("not decided", None)
    assert found.tolerance(1) == math.inf


def test_missing_runs_are_no_outcome():
    assert gain(over=("absent",)) is None
    assert gain(setting="elsewhere") is None
    assert Hardest("x", "here", "absent", "a").check(RUNS) is None
    assert Trend("x", ("here",), ("ours", "absent"), "worst").check(RUNS) is None
    assert Value("x", "here", "absent").check(RUNS) is None


def test_the_hardest_task():
    assert Hardest("x", "here", "ours", "a").check(RUNS).verdict == "holds"
    wrong = Hardest("x", "here", "ours", "b").check(RUNS)
    assert wrong.verdict == "fails"
    assert "a 0.500" in wrong.detail


def test_a_trend_is_a_slope_per_step():
    up = Trend("x", ("here",), ("low", "high", "ours"), "worst").check(RUNS)
    assert up.spread.mean == pytest.approx(0.1)
    assert up.verdict == "holds"
    assert Trend("x", ("here",), ("low", "ours"), "worst", "down").check(RUNS).verdict == "fails"


def test_a_trend_over_settings():
    runs = {str(n): {"ours": variant("ours", [0.1 * n, 0.9], noise=n / 1000)} for n in (1, 2, 3)}
    found = Trend("x", ("1", "2", "3"), ("ours",), "worst").check(runs)
    assert found.spread.mean == pytest.approx(0.1)


def test_a_value_has_no_verdict():
    found = Value("x", "here", "high", "mean").check(RUNS)
    assert found.spread.mean == pytest.approx(0.625)
    assert found.verdict == ""


def test_a_result_within_the_tolerance_is_met():
    stored = gain()
    assert Finding(None, stored, stored).match == "met"
    near = gain(over=("high",))
    assert Finding(None, stored, near).match == "met"
    assert Finding(None, stored, gain(over=("low",))).match == "missed"
    assert Finding(None, stored, None).match == ""


# Quantities


RUN = curves([[0.1, 0.4], [0.2, 0.5], [0.3, 0.6], [0.4, 0.4]], [[3, 1]] * 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worst", 0.4),
        ("mean", 0.4),
        ("worst over rounds", 0.25),
        ("difference over rounds", 0.225),
        ("variance at 60", 0.0225),  # round 2 of 4
        ("difference at budget 3", 0.3),
        ("task b at 10", 0.4),
        ("turns a", 0.75),
        ("rounds to 0.3", 3.0),
        ("rounds to 0.5", 4.0),  # never: it counts as the length of the run
    ],
)
def test_quantities(name, value):
    assert find_quantity(name).of(RUN) == pytest.approx(value)


def test_final_is_the_mean_of_the_last_tenth():
    run = curves([[t / 20] for t in range(1, 21)])
    assert find_quantity("worst").of(run) == pytest.approx((0.95 + 1.0) / 2)


def test_rounds_of_the_paper_are_scaled():
    assert [scale_round(t, 40) for t in (1, 10, 60, 120)] == [1, 3, 20, 40]


def test_an_unknown_quantity_names_the_known_ones():
    assert "'worst'" in one_line(ConfigError, lambda: find_quantity("best"))
    assert "no task 'z'" in one_line(ConfigError, lambda: find_quantity("task z").of(RUN))
