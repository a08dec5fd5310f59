"""Settings: what is known of a run before it is run."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mmfl.convergence import Setting
from mmfl.errors import InputError
from mmfl.exchange import LocalWork
from mmfl.theory import skew_bounds
from mmfl.train.reference import batches
from support import convex


def test_it_is_light_to_import():
    script = "import sys, mmfl.convergence; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_no_selection_is_more_skewed_than_the_bounds():
    unequal = convex.quadratic((1, 2, 9))
    setting = Setting(tasks={"one": unequal, "other": unequal}, alpha=2.0)
    low, high = setting.skew("one")
    assert (low, high) == (pytest.approx(12 / 27), pytest.approx(12 / 3))
    for q in np.linspace(0.001, 1.0, 50):
        least, most = skew_bounds(unequal.p, q, given_nonempty=True)
        assert low <= least * (1 + 1e-9)
        assert most <= high * (1 + 1e-9)


def test_without_alpha_the_skew_is_exact():
    unequal = convex.quadratic((1, 2, 9))
    setting = Setting(tasks={"one": unequal, "other": unequal})
    assert setting.skew("one") == skew_bounds(unequal.p, 0.5, given_nonempty=True)
    assert Setting(tasks={"one": unequal}).skew("one") == pytest.approx((1.0, 1.0))
    some = Setting(tasks={"one": unequal}, active=0.5)
    assert some.skew("one") == skew_bounds(unequal.p, 0.0, given_nonempty=True)


@pytest.mark.parametrize(("tau", "batch_size", "exact"), [
    (1, 1, True), (1, 2, True), (5, 1, False), (5, 2, False), (5, 3, True), (5, 9, True),
])  # fmt: skip
def test_which_steps_are_unbiased_whatever_came_before(tau, batch_size, exact):
    """Over many turns: is a later batch as likely to be any set, whatever the first batch was?"""
    setting = Setting(tasks={"one": convex.quadratic((4, 4))}, tau=tau, batch_size=batch_size)
    assert setting.exact("one") is exact
    local = setting.experiment(0).training("one")
    work = LocalWork(batch_size, 0.1, steps=local.steps, remainder=local.remainder)
    rng = np.random.default_rng(0)
    again = []
    for _ in range(2000):
        first, *later = [frozenset(rows.tolist()) for rows in batches(4, work, rng=rng)]
        assert len(later) == tau - 1
        again += [len(first & later[0]) / len(first)] if later else []
    if tau > 1:  # an independent batch has b / 4 of the first one, on average
        independent = min(1.0, batch_size / 4)
        assert bool(abs(np.mean(again) - independent) < 0.03) is exact


def test_all_tasks_have_the_same_clients():
    with pytest.raises(InputError, match="the same number of clients"):
        Setting(tasks={"one": convex.quadratic((1, 2)), "other": convex.quadratic((1, 2, 3))})
