"""A few of the kills of ``make chaos``."""

from __future__ import annotations

import pytest

from chaos import kills

FEW = ("--set", "rounds=8")


@pytest.mark.slow
def test_killed_and_resumed_runs_end_with_the_straight_fingerprint(tmp_path):
    found = kills.coordinator(2, 7, tmp_path, FEW)
    assert found["runs with the straight run's fingerprint"] == found["runs"] == 2
    assert found["kills"] >= 2
    assert found["workers left behind"] == 0
    assert found["exit codes"] == {"0": 2}
    assert found["said on standard error"] == []


@pytest.mark.slow
@pytest.mark.cold
def test_killed_workers_change_nothing(tmp_path):
    found = kills.workers(2, 7, tmp_path, FEW)
    assert found["runs with the straight run's fingerprint"] == found["runs"]
    assert found["kills"] >= 2
    assert found["said on standard error"] == []
