from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import ConfigError
from mmfl.experiment import Checkpoints
from mmfl.runs.checkpoints import CheckpointSchedule
from support.helpers import one_line


def saved(settings: Checkpoints, rounds: list[float], cost: float, after: int = 0) -> list[int]:
    """The rounds after which it saves, if they and saving take so long."""
    schedule, now, found = CheckpointSchedule(settings, round=after, now=0.0), 0.0, []
    for number, seconds in enumerate(rounds, start=after + 1):
        now += seconds
        if schedule.due(number, now):
            found.append(number)
            schedule.note_saved(number, now, now + cost)
            now += cost
    return found


def test_by_rounds():
    assert saved(Checkpoints(rounds=3), [1.0] * 10, 100.0) == [3, 6, 9]
    assert saved(Checkpoints(rounds=3), [1.0] * 5, 0.0, after=7) == [10]


def test_by_seconds():
    assert saved(Checkpoints(seconds=2.5), [1.0] * 10, 0.0) == [3, 6, 9]
    assert saved(Checkpoints(), [4.0] * 7, 0.0) == [3, 6]


def test_none():
    assert saved(Checkpoints(keep=0, rounds=1), [1.0] * 5, 0.0) == []


@given(
    st.lists(st.floats(0.01, 30), min_size=1, max_size=60),
    st.floats(0, 100),
    st.floats(0.1, 30),
)
def test_an_interval_in_seconds_costs_less_than_a_twentieth(rounds, cost, seconds):
    """All but the last one, for which there is no time after it yet."""
    found = saved(Checkpoints(seconds=seconds), rounds, cost)
    assert (len(found) - 1) * cost <= 0.05 * sum(rounds) + 1e-9


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"rounds": 0}, "rounds"), ({"seconds": -1.0}, "seconds"), ({"keep": -1}, "keep")],
)
def test_mistakes(settings, key):
    assert key in one_line(ConfigError, lambda: Checkpoints(**settings))


def test_rounds_or_seconds():
    said = one_line(ConfigError, lambda: Checkpoints(rounds=3, seconds=4.0))
    assert "rounds or seconds, not both" in said
