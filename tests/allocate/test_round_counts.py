import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.allocate.sampling import round_counts
from mmfl.rng import stream


@st.composite
def expectations(draw):
    """Tables as `sample` makes them: a whole number of clients times their probabilities."""
    rows, S = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    table = np.zeros((rows, S))
    for row in range(rows):
        weight = draw(st.lists(st.just(0.0) | st.floats(1e-12, 1), min_size=S, max_size=S))
        if sum(weight) > 0:
            table[row] = draw(st.integers(1, 50)) * np.array(weight) / sum(weight)
    return table


def keeps_the_laws(counts, expected):
    near = 1e-7
    low, high = np.floor(expected + near), np.ceil(expected - near)
    columns = expected.sum(axis=0)
    return (
        (counts.sum(axis=1) == np.rint(expected.sum(axis=1))).all()
        and (counts >= low).all()
        and (counts <= high).all()
        and (counts.sum(axis=0) >= np.floor(columns + near)).all()
        and (counts.sum(axis=0) <= np.ceil(columns - near)).all()
    )


@settings(max_examples=200)
@given(expectations(), st.integers(0, 2**32))
def test_round_counts_keeps_rows_and_rounds_entries_and_columns(expected, seed):
    before = expected.copy()
    counts = round_counts(expected, rng=stream(seed, "round"))
    assert counts.dtype == np.int64
    assert keeps_the_laws(counts, expected)
    assert (expected == before).all()


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=4))
def test_round_counts_leaves_whole_tables_alone(table):
    assert round_counts(np.array(table, dtype=float), rng=stream(0, "round")).tolist() == table


def test_round_counts_keeps_the_mean():
    expected = np.array([[0.5, 0.25, 0.25, 0.0], [1.3, 0.0, 0.0, 0.7], [0.1, 2.2, 3.3, 0.4]])
    n = 2500
    drawn = np.stack([round_counts(expected, rng=stream(0, "mean", i)) for i in range(n)])
    part = expected % 1
    deviation = np.sqrt(part * (1 - part) / n)
    assert (np.abs(drawn.mean(axis=0) - expected) <= 4 * deviation + 1e-9).all()
    total = expected.sum(axis=0)
    deviation = np.sqrt((total % 1) * (1 - total % 1) / n)
    assert (np.abs(drawn.sum(axis=1).mean(axis=0) - total) <= 4 * deviation + 1e-9).all()


class Constant:
    """A generator whose numbers are all the same: the ends of [0, 1) must do no harm either."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-53])
@pytest.mark.parametrize("tiny", [1e-6, 1.1e-9, 0.9e-9, 2e-10, 1e-16])
def test_round_counts_never_leaves_the_bounds_by_bad_luck(draw, tiny):
    expected = np.array([[1 - 2 * tiny, tiny, tiny], [2 - 2 * tiny, tiny, tiny]])
    counts = round_counts(expected, rng=Constant(draw))
    assert counts.sum(axis=1).tolist() == [1, 2]
    assert (counts >= 0).all()
    assert (np.abs(counts - expected) <= 1).all()
