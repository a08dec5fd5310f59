"""Whatever a client sends costs that client, and never the run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mmfl.aggregate import REFUSALS
from mmfl.config import short
from mmfl.exchange import Evaluation
from mmfl.faults import Faults, Misbehaving
from mmfl.loop.scoring import combine
from support.crowd import mock, play, step


def hold_five(task, params, client):
    """Each client holds five examples of each task, and is right on four."""
    return Evaluation(task, 5, 1.0, 4.0, client, guess=2.0)


@dataclass(frozen=True)
class Reports:
    """Reports what `ODD` makes of an honest evaluation."""

    how: str

    def send(self, update, *, tasks, rng):
        return [update]

    def report(self, found):
        return ODD[self.how][0](found)


def claim(**fields: Any) -> Any:
    return lambda found: dataclasses.replace(found, **fields)


ODD = {
    "nothing": (lambda found: None, "malformed", "expected an evaluation, got NoneType"),
    "text": (lambda found: "fine", "malformed", "expected an evaluation, got str"),
    "no examples": (claim(examples=0), "evaluation", "claims 0 examples, but holds 5"),
    "too many": (claim(examples=6), "evaluation", "claims 6 examples, but holds 5"),
    "half": (claim(examples=2.5), "evaluation", "claims 2.5 examples, but holds 5"),
    "not a count": (claim(examples=None), "evaluation", "claims None examples, but holds 5"),
    "a flag": (claim(examples=True), "evaluation", "claims True examples, but holds 5"),
    "loss in words": (claim(loss="low"), "evaluation", "claims 'low' where a number is expected"),
    "a list": (claim(loss=[1.0]), "evaluation", "claims [1.0] where a number is expected"),
    "no guess": (claim(guess=None), "evaluation", "claims None where a number is expected"),
    "metric in words": (claim(metric="m"), "evaluation", "claims 'm' where a number is expected"),
    "nan": (claim(loss=math.nan), "evaluation", "claims a mean loss of nan"),
    "inf": (claim(loss=math.inf), "evaluation", "claims a mean loss of inf"),
    "bad guess": (claim(guess=-5.0), "evaluation", "claims a mean loss of -1 for a blind guess"),
    "too good": (
        claim(metric=6.0), "evaluation",
        "claims a mean metric of 1.2, which is not a number from 0 to 1",
    ),
    "metric nan": (
        claim(metric=math.nan), "evaluation",
        "claims a mean metric of nan, which is not a number from 0 to 1",
    ),
    "too large": (
        claim(loss=-(10**400)), "evaluation",
        f"claims {short(-(10**400))} where a number is expected",
    ),
    "another client": (claim(client=99), "evaluation", "no answer"),
    "whose": (claim(client=[3]), "evaluation", "no answer"),
    "which task": (claim(task=["a"]), "evaluation", "no answer"),
}  # fmt: skip


@pytest.mark.parametrize("how", ODD)
def test_an_odd_evaluation_costs_that_client_and_is_described_in_words(how):
    faults = Faults(clients=(Misbehaving(does=Reports(how), ids=[3], tasks=["a"]),))
    changes = {"score_source": "clients", "rounds": 1, "faults": faults}
    [(_, record)] = play(mock(test=hold_five, changes=changes))
    [failure] = record.failures
    _, reason, detail = ODD[how]
    assert (failure.address.client, failure.reason, failure.turn) == (3, reason, False)
    assert failure.detail == detail
    assert record.difficulty == pytest.approx({"a": 0.2, "b": 0.2, "c": 0.2})
    assert record.faults[-1].outcome == "refused"


def test_whole_numbers_are_numbers():
    changes = {"score_source": "clients", "rounds": 1}
    test = mock(test=lambda task, params, k: Evaluation(task, 5, 1, 4, k), changes=changes)
    [(_, record)] = play(test)
    assert record.failures == ()
    assert combine([Evaluation("a", 2, 1, 1)])["a"].metric == 0.5


ODD_TURNS = {
    "seconds": {"seconds": "long"},
    "no seconds": {"seconds": None},
    "losses": {"loss_before": [0.5], "loss_after": "low"},
    "samples": {"samples": 2.5},
    "address": {"address": None},
    "delta": {"delta": "all of it"},
}


@pytest.mark.parametrize("how", ODD_TURNS)
def test_an_odd_update_costs_that_turn(how):
    def turn(job, params):
        odd = ODD_TURNS[how] if job.address.client == 3 else {}
        return dataclasses.replace(step(job, params), **odd)

    [(_, record)] = play(mock(turn, changes={"rounds": 1}))
    [failure] = record.failures
    assert (failure.address.client, failure.turn) == (3, True)
    assert failure.reason in REFUSALS


@pytest.mark.parametrize("claim", ["certain", None, [0.5], np.array([0.1, 0.2]), math.nan, 7])
def test_a_claimed_probability_is_ignored(claim):
    def turn(job, params):
        return dataclasses.replace(step(job, params), probability=claim)

    [(_, record)] = play(mock(turn, changes={"rounds": 1}))
    assert record.failures == ()
