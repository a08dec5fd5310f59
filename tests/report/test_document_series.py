"""Curves over seeds: which rounds they have points at, and Jain's index of each."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.fairness import jain
from mmfl.report.document.series import bin_rounds, jain_by_round, pick_rounds


def test_jain_by_round_is_that_of_the_library():
    rows = [[0.2, 0.4], [0.0, 0.0], [0.0, 1.0], [-0.1, 1.0], [math.nan, 1.0], [1e200, 1.0]]
    found = jain_by_round(np.array(rows))
    assert found.tolist() == pytest.approx([jain(row) for row in rows], nan_ok=True)


def test_a_long_run_has_a_limited_number_of_points():
    picked = pick_rounds(10_000, 3 * 8 * 14)
    assert (picked[0], picked[-1]) == (1, 10_000)
    assert 30_000 < len(picked) * 3 * 8 * 14 <= 60_000
    assert pick_rounds(40, 100).tolist() == list(range(1, 41))
    assert bin_rounds(40).tolist() == [*range(0, 40, 2), 40]
    assert bin_rounds(1).tolist() == [0, 1]
    assert len(bin_rounds(10_001)) <= 26
