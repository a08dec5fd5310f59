"""A failure that has a usual remedy names it. Batch norm never gets one example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import mmfl
from mmfl.data import Iid, Synthetic
from mmfl.errors import EngineError
from mmfl.exchange import LocalWork
from mmfl.experiment import Clients, Evaluate, LocalTraining, Task
from mmfl.rng import stream
from mmfl.train.norms import find_least_batch
from mmfl.train.reference import batches
from support.helpers import one_line


@dataclass(frozen=True)
class Normed:
    """A network with a norm over the batch, which cannot be computed for one example."""

    kind: str = "batch"

    def build(self, shape: Any, outputs: int) -> Any:
        from torch import nn

        norms = {
            "batch": nn.BatchNorm1d(4),
            "own statistics": nn.BatchNorm1d(4, track_running_stats=False),
            "group": nn.GroupNorm(4, 4),
            "two groups": nn.GroupNorm(2, 4),
            "layer": nn.LayerNorm(4),
        }
        return nn.Sequential(
            nn.Flatten(), nn.Linear(shape[0], 4), norms[self.kind], nn.Linear(4, outputs)
        )


def run(points: int, kind: str = "batch", **changes: Any) -> Any:
    """The record of one round of two clients with so many examples."""
    task = Task("a", Synthetic(train=40, test=9), model=Normed(kind), partition=Iid(points=points))
    experiment = mmfl.Experiment(
        **{
            "rounds": 1,
            "clients": Clients(2),
            "tasks": (task,),
            "local": LocalTraining(epochs=1, batch_size=8),
            "engine": "inline",
        }
        | changes
    )
    ((_, record),) = mmfl.rounds(experiment)
    return record


@pytest.mark.parametrize("kind", ["batch", "own statistics", "group"])
def test_a_last_batch_of_one_example_is_dropped_where_it_cannot_be_normalized(kind):
    """As with ``remainder = "drop"``."""
    found = [run(9, kind, local=LocalTraining(epochs=2, batch_size=8, remainder=rule))
             for rule in ("keep", "drop")]  # fmt: skip
    assert found[0].failures == found[1].failures == ()
    assert found[0].loss == found[1].loss
    assert run(10, kind).failures == ()


@pytest.mark.parametrize("kind", ["two groups", "layer"])
def test_it_is_kept_where_it_can(kind):
    kept = run(9, kind)
    assert kept.failures == ()
    assert kept.loss != run(9, kind, local=LocalTraining(1, batch_size=8, remainder="drop")).loss


REMEDIES = {
    "batch size": (
        9, {"local": LocalTraining(epochs=1, batch_size=1)},
        "normalization over a batch needs at least two examples: set local.batch_size to 2 or more",
    ),
    "client": (1, {}, "needs at least two examples, and this client has one"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["batch", "group"])
@pytest.mark.parametrize("what", REMEDIES)
def test_a_turn_with_batches_of_one_fails_and_says_what_helps(what, kind):
    points, changes, remedy = REMEDIES[what]
    failures = run(points, kind, **changes).failures
    assert len(failures) == 2
    for failure in failures:
        assert failure.detail.startswith("ValueError: Expected more than 1 value per channel")
        assert failure.detail.endswith(remedy)


def test_an_evaluation_with_a_batch_of_one_says_what_helps():
    """Only with statistics of the batch."""
    evaluate = Evaluate(batch_size=8)
    assert run(10, evaluate=evaluate).failures == ()
    said = one_line(EngineError, lambda: run(10, "own statistics", evaluate=evaluate))
    assert said.endswith("the last batch has one example: change evaluate.batch_size")


def test_a_share_of_the_work_is_of_the_steps_without_dropped_batches():
    work = LocalWork(batch_size=8, lr=0.1, epochs=4, share=0.5).drop_below(2, 17)
    assert [len(b) for b in batches(17, work, rng=stream(0, "a"))] == [8] * 4
    assert work.drop_below(1, 17).remainder == "drop"
    assert LocalWork(batch_size=8, lr=0.1).drop_below(2, 18).remainder == "keep"


def test_images_have_several_values_per_channel():
    images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten())
    state = torch.get_rng_state()
    assert find_least_batch(images, lambda: torch.zeros(1, 1, 5, 5)) == 1
    assert find_least_batch(images, lambda: torch.zeros(1, 1, 3, 3)) == 2
    assert find_least_batch(images, lambda: torch.zeros(1, 7)) == 1  # fails in any case
    assert torch.equal(torch.get_rng_state(), state)
