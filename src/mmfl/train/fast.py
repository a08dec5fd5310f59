"""Local training at the speed of the model's own arithmetic: any network, torch's gradients.

What it leaves out of the plain loop: a shard is scaled once a turn, not once a batch; weights are
updated by one fused pass (torch's, without its optimiser's start-up); gradients are handed over,
never copied or set to zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.params import Flat
from mmfl.rng import Stream
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Mean, Trained, Turn, batches, fitted, forward
from mmfl.train.resident import Resident
from mmfl.train.seeding import seeded
from mmfl.updates import LocalWork

__all__ = ["Fast", "FusedSgd"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fast:
    """Trains a resident network, one client after the other."""

    resident: Resident
    inputs: Inputs
    loss: Mean
    precision: str
    together: ClassVar[int] = 1

    def train(
        self, weights: Flat, turns: Sequence[Turn], out: Flat | None = None
    ) -> Iterator[tuple[Flat, Trained]]:
        """Each turn's change of the weights, and its report."""
        for turn in turns:
            self.resident.set(weights)
            with seeded(turn.rng):
                report = self._train(turn.rows, turn.work, turn.rng)
            yield self.resident.change(weights, out), report

    def _train(self, rows: Ints, work: LocalWork, rng: Stream) -> Trained:
        module = self.resident.module
        module.train()
        optimizer = FusedSgd(module.parameters(), work)
        batch = self.inputs.batches(rows, rng=rng)
        samples, first, last = 0, math.nan, math.nan
        for picked in batches(len(rows), work, rng=rng):
            x, y = batch(picked)
            optimizer.zero_grad()
            mean = self.loss(fitted(forward(module, x, self.precision), y), y)
            mean.backward()
            optimizer.step()
            last = mean.item()
            first = first if samples else last
            samples += len(picked)
        return Trained(samples, first, last)


class FusedSgd:
    """The rule of `Sgd` in one pass over the memory; equal within rounding."""

    def __init__(self, parameters: Iterable[Tensor], work: LocalWork) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._work = work
        self._velocity: dict[int, Tensor] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the gradients."""
        work = self._work
        moving = {w: _dense(w.grad) for w in self._parameters if w.grad is not None}
        if not moving:
            return
        if not work.momentum and not work.weight_decay:
            torch._foreach_add_(list(moving), list(moving.values()), alpha=-work.lr)
            return
        new = {w: g for w, g in moving.items() if id(w) not in self._velocity}
        known = {w: g for w, g in moving.items() if id(w) in self._velocity}
        if work.momentum:
            self._velocity |= {id(w): torch.empty_like(w) for w in new}
        for group in (new, known):
            if group:
                torch._fused_sgd_(
                    list(group),
                    list(group.values()),
                    [self._velocity[id(w)] for w in group] if work.momentum else [],
                    weight_decay=work.weight_decay,
                    momentum=work.momentum,
                    lr=work.lr,
                    dampening=0.0,
                    nesterov=False,
                    maximize=False,
                    is_first_step=group is new,
                )


def _dense(gradient: Tensor) -> Tensor:
    return gradient.to_dense() if gradient.is_sparse else gradient
