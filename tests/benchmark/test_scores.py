"""Ranks and gains over settings, and how sure they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.benchmark import score_rules
from mmfl.benchmark.scores import find_common
from mmfl.report import Curves, Variant


def variant(rule: str, merits: dict[int, tuple[float, float]]) -> Variant:
    """Two tasks with constant merits."""
    runs = {
        seed: Curves(("a", "b"), ("higher",) * 2, np.array([pair] * 3), np.ones((3, 2), np.int64))
        for seed, pair in merits.items()
    }
    return Variant(rule, runs)


def setting(shift: float, seeds: int = 4, **rules: float) -> dict[str, Variant]:
    """Rules whose worst task differs by a constant, over seeds with noise in common."""
    noise = np.random.default_rng(0).normal(0, 0.05, seeds)
    return {
        rule: variant(rule, {s: (shift + gain + noise[s], 0.9 + gain) for s in range(seeds)})
        for rule, gain in rules.items()
    }


def test_a_rule_that_is_always_better_has_rank_1_without_doubt() -> None:
    runs = {"easy": setting(0.5, fair=0.1, base=0.0), "hard": setting(0.1, fair=0.02, base=0.0)}
    fair, base = score_rules(runs, ["fair", "base"], "base")
    assert fair.ranks["worst"] == (1.0, 1.0, 1.0)
    assert base.ranks["mean"] == (2.0, 2.0, 2.0)
    assert fair.gains["worst"].value == pytest.approx(0.06)
    assert fair.gains["worst"][1:] == pytest.approx((0.02, 0.1))
    assert base.gains["mean"].value == 0
    assert fair.price == pytest.approx(-1.0), "the mean gains as much as the worst task"
    assert math.isnan(base.price)


def test_rules_that_take_turns_share_their_ranks_and_the_interval_says_so() -> None:
    runs = {"one": setting(0.5, x=0.1, y=0.0), "other": setting(0.5, x=0.0, y=0.1)}
    x, y = score_rules(runs, ["x", "y"], "x")
    assert x.ranks["worst"].value == y.ranks["worst"].value == 1.5
    assert (x.ranks["worst"].low, x.ranks["worst"].high) == (1.0, 2.0)


def test_equal_rules_share_a_rank() -> None:
    one, other = score_rules({"only": setting(0.5, x=0.1, y=0.1)}, ["x", "y"], "x")
    assert one.ranks["worst"].value == other.ranks["worst"].value == 1.5


def test_seeds_that_a_rule_lacks_and_settings_that_it_was_not_run_in_do_not_count() -> None:
    runs = {"one": setting(0.5, x=0.1, y=0.0), "other": setting(0.5, x=0.0)}
    runs["one"]["y"] = variant("y", {2: (0.3, 0.3), 9: (0.9, 0.9)})
    assert find_common(runs, ["x", "y"]) == {"one": [2]}
    x, y = score_rules(runs, ["x", "y"], "nobody")
    assert y.means["worst"].value == pytest.approx(0.3)
    assert math.isnan(y.means["worst"].low), "one run says nothing about others"
    assert x.gains == {}
    assert score_rules(runs, ["x", "z"], "x") == []


def test_the_same_runs_give_the_same_intervals() -> None:
    runs = {"one": setting(0.5, x=0.1, y=0.0), "other": setting(0.2, x=0.0, y=0.03)}
    assert score_rules(runs, ["x", "y"], "x") == score_rules(runs, ["x", "y"], "x")
