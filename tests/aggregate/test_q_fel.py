"""q-Fel over tasks: the published formula, and where its loss comes from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.aggregate import Mean, QFel, norm_of, q_fel_as_published
from mmfl.errors import EngineError
from mmfl.exchange import Address, ClientUpdate, Layout, Params
from mmfl.rng import stream

LAYOUT = Layout((("weight", (7,)),))


def flat(*address: object) -> np.ndarray:
    return stream(0, "q-Fel", *address).standard_normal(LAYOUT.size).astype(np.float32)


def updates(*deltas: np.ndarray) -> list[ClientUpdate]:
    return [
        ClientUpdate(
            Address("run", 1, "task", k, 0),
            Params(LAYOUT, delta),
            k + 1,
            k + 1,
            1.0,
            0.5,
            norm_of(delta),
        )
        for k, delta in enumerate(deltas)
    ]


def step(rule: QFel, *deltas: np.ndarray, loss: float, lr: float = 0.1, state: Any = None) -> Any:
    weights = Params(LAYOUT, np.zeros(LAYOUT.size, np.float32))
    after, kept = rule.aggregate(weights, updates(*deltas), nan, state, loss=loss, lr=lr)
    return after.flat, kept


@given(
    q=st.floats(0, 5),
    loss=st.floats(0.01, 50),
    lipschitz=st.floats(0.1, 100),
    count=st.integers(1, 6),
)
def test_it_is_the_published_formula(q, loss, lipschitz, count):
    weights = flat("w")
    deltas = [flat("d", k) for k in range(count)]
    rule = QFel(q=q, lipschitz=lipschitz)
    after, _ = rule.aggregate(
        Params(LAYOUT, weights), updates(*deltas), nan, None, loss=loss, lr=0.1
    )
    expected = q_fel_as_published(
        weights.astype(float),
        [weights + delta.astype(float) for delta in deltas],
        loss=loss,
        q=q,
        lipschitz=lipschitz,
    )
    assert np.allclose(after.flat, expected, atol=1e-5)


def test_q_zero_is_the_plain_mean_whatever_the_loss():
    deltas = [flat(k) for k in range(3)]
    for loss in (0.0, 1.0, inf):
        after, _ = step(QFel(q=0), *deltas, loss=loss)
        assert np.allclose(after, np.mean(deltas, axis=0), atol=1e-6)


def test_a_higher_loss_makes_longer_steps():
    lengths = [norm_of(step(QFel(), flat(1), loss=loss)[0]) for loss in (0.0, 0.1, 1.0, 10.0, 1e9)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[-1] == pytest.approx(norm_of(flat(1)), rel=1e-5)


def test_l_is_one_over_the_learning_rate():
    found, _ = step(QFel(), flat(1), loss=2.0, lr=0.05)
    given, _ = step(QFel(lipschitz=20.0), flat(1), loss=2.0, lr=0.7)
    assert np.allclose(found, given)


@pytest.mark.parametrize("loss", [nan, inf])
def test_a_loss_that_is_not_finite_gives_the_plain_mean(loss):
    assert np.array_equal(step(QFel(), flat(1), loss=loss)[0], flat(1))


def test_a_negative_loss_is_refused():
    with pytest.raises(EngineError, match=r"q_fel needs a loss that is not negative, got -0\.5"):
        step(QFel(), flat(1), loss=-0.5)


def test_frozen_keeps_the_first_loss():
    first, kept = step(QFel(frozen=True), flat(1), loss=3.0)
    later, still = step(QFel(frozen=True), flat(1), loss=0.5, state=kept)
    assert kept == still == 3.0
    assert np.array_equal(first, later)
    assert step(QFel(), flat(1), loss=0.5)[1] is None


@dataclass(frozen=True)
class Heard:
    """The mean, with what it was told as its state."""

    mergeable: ClassVar[bool] = True
    wants: ClassVar[tuple[str, ...]] = ("loss", "lr")

    def aggregate(self, params, updates, difficulty, state, *, loss, lr):
        """The mean's weights, and what was told in each round so far."""
        after, _ = Mean().aggregate(params, updates, difficulty, None)
        return after, [*(state or []), (difficulty, loss, lr)]


def play(experiment: Experiment) -> list[Any]:
    return list(mmfl.rounds(experiment))


@pytest.mark.parametrize("score", ["error", "loss"])
@pytest.mark.parametrize("source", ["server", "clients"])
def test_the_loss_is_the_tasks_before_the_round_whatever_the_score(small, score, source):
    settings = small.from_toml(
        small.to_toml(), sets=[f'score="{score}"', f'score_source="{source}"', 'score_split="test"']
    )
    plain = play(dataclasses.replace(settings, aggregator=Mean()))
    told = play(dataclasses.replace(settings, aggregator=Heard()))
    losses = play(dataclasses.replace(settings, score=mmfl.objectives.LossScore()))
    for (one, _), (other, _) in zip(plain, told, strict=True):  # to be told changes nothing
        for task, weights in one.params.items():
            assert weights.flat.tobytes() == other.params[task].flat.tobytes()
    for task in ("dense", "image"):
        heard = told[-1][0].aggregator[task]
        rates = [settings.work(task, t).lr for t in range(3)]
        assert [lr for *_, lr in heard] == rates
        assert np.isfinite([loss for _, loss, _ in heard]).all()
        if score == "loss":
            expected = [record.difficulty[task] for _, record in losses][:2]
            assert [loss for _, loss, _ in heard][1:] == expected
            assert [f for f, *_ in heard][1:] == expected


def test_it_learns_and_resumes_to_the_same_bits(small):
    fair = dataclasses.replace(small, rounds=6, aggregator=QFel(q=1.0), score_split="test")
    done = play(fair)
    assert all(done[-1][1].loss[task] < done[0][1].loss[task] for task in ("dense", "image"))
    middle = done[2][0]
    again = list(mmfl.rounds(fair, state=middle))
    assert again[-1][0].fingerprint == done[-1][0].fingerprint


def test_what_is_not_known_cannot_be_wanted(small):
    @dataclass(frozen=True)
    class Curious(Heard):
        wants: ClassVar[Any] = "accuracy"

    with pytest.raises(ValueError, match=r"wants 'accuracy'; known: active, loss, lr"):
        dataclasses.replace(small, aggregator=Curious())
