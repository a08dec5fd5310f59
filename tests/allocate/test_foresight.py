"""Foresight: where the remaining turns still buy something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from mmfl.allocate import Foresight, View
from mmfl.rng import stream

Curve = Callable[[int], float]


@dataclass(frozen=True)
class Turns:
    """Remembers numbers of turns alone."""

    counts: np.ndarray

    def rows(self, ids, tasks):
        shape = (len(ids), len(tasks))
        return np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, np.nan)

    def turns(self, tasks):
        return self.counts


def play(make_view, curves: dict[str, Curve], rounds=60, eligible=None, **settings) -> np.ndarray:
    """The turns of each task after tasks followed these curves of difficulty over turns."""
    names, state = tuple(curves), None
    turns = np.zeros(len(names), np.int64)
    may = np.ones((10, len(names)), bool) if eligible is None else eligible
    for t in range(1, rounds + 1):
        noise = stream(0, "noise", t).standard_normal(len(names)) * 0.01
        now = [max(0.0, curve(int(n))) for curve, n in zip(curves.values(), turns, strict=True)]
        difficulty = np.full(len(names), np.nan) if t == 1 else np.maximum(now + noise, 0.0)
        view: View = make_view(
            may, difficulty, tasks=names, round=t, rounds=rounds, remembered=Turns(turns.copy())
        )
        rule = Foresight(**settings)
        got, state = rule.allocate(view, state, rng=stream(0, "allocate", t))
        turns += got.counts(len(names))
    return turns


def power_law(floor: float, half: float, delay: float = 0.0) -> Curve:
    return lambda n: floor + (0.9 - floor) * (1 + max(0.0, n - delay) / half) ** -0.7


def test_a_slow_learner_gets_more_than_a_fast_one(make_view):
    fast, slow = play(make_view, {"fast": power_law(0.05, 2), "slow": power_law(0.05, 40)})
    assert slow > 1.5 * fast


def test_a_task_that_stays_at_chance_is_not_given_up(make_view):
    curves = {"steady": power_law(0.3, 10), "late": power_law(0.05, 20, delay=100)}
    _, late = play(make_view, curves)
    assert late > 250, "it begins to learn, and has turns left to do so"


def test_a_task_that_learns_nothing_gets_less_than_fed_fair_would_give_it(make_view):
    turns = play(make_view, {"hopeless": lambda n: 0.9, "hard": power_law(0.2, 60)})
    fed_fair = 0.9**2 / (0.9**2 + 0.5**2)
    assert turns[0] / turns.sum() < fed_fair - 0.2


def test_equal_tasks_get_equal_shares_whatever_their_order(make_view):
    one = play(make_view, {name: power_law(0.1, 20) for name in "abc"}, rounds=40)
    assert one.max() - one.min() < 0.2 * one.mean()


def test_the_plan_knows_who_may_train_what(make_view):
    eligible = np.ones((10, 2), bool)
    eligible[2:, 0] = False
    curves = {"rare": power_law(0.05, 40), "common": power_law(0.05, 5)}
    rare, common = play(make_view, curves, eligible=eligible)
    assert rare + common == 600
    assert 60 < rare <= 120


def test_a_larger_alpha_gives_the_worst_task_more(make_view):
    curves = {"easy": power_law(0.02, 10), "hard": power_law(0.5, 10)}
    mild, strong = (play(make_view, curves, alpha=alpha)[1] for alpha in (1.0, 8.0))
    assert strong > mild


def test_its_runs_cannot_be_extended():
    assert Foresight.plans_ahead


@pytest.mark.parametrize("tasks", [1, 40])
def test_one_task_and_many_get_all_turns(make_view, tasks):
    turns = play(make_view, {f"t{n:02d}": power_law(0.1, 5 + n) for n in range(tasks)}, rounds=5)
    assert turns.sum() == 50
