"""Evaluations come through a worker's message as they were."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mmfl.engines.evaluations import pack_evaluations, unpack_evaluations
from mmfl.exchange import Evaluation, EvaluationFailure

numbers = st.floats(allow_nan=False, allow_infinity=False)
tallies = st.none() | arrays(np.float64, array_shapes(max_dims=3, max_side=4), elements=numbers)
evaluations = st.builds(
    Evaluation,
    task=st.just("a"),
    examples=st.integers(0, 2**53),
    loss=numbers,
    metric=numbers | st.just(math.inf),
    client=st.none() | st.integers(0, 2**31),
    guess=numbers,
    tally=tallies,
)
failures = st.builds(
    EvaluationFailure, st.just("a"), st.integers(0, 9), st.just("raised"), st.text(max_size=5)
)


@given(st.lists(evaluations | failures, max_size=6))
def test_what_was_packed_comes_out_in_order(found):
    tables, frame = pack_evaluations(found)
    again = list(unpack_evaluations(json.loads(json.dumps(tables)), frame))
    assert again == found
    for one, other in zip(found, again, strict=True):
        before, after = getattr(one, "tally", None), getattr(other, "tally", None)
        assert (before is None) == (after is None)
        assert before is None or (before.shape == after.shape and (before == after).all())


def test_means_travel_as_they_always_did():
    one = Evaluation("a", 3, 1.5, 2.0, guess=0.5)
    tables, frame = pack_evaluations([one])
    assert frame == b""
    assert tables == [{k: v for k, v in dataclasses.asdict(one).items() if k != "tally"}]
