"""Local training of small dense networks with gradients written out: no graph, no bookkeeping.

For a network of dense layers with ReLU between them and cross entropy, a step is four products per
layer. Recording and replaying them costs more than they do when the layers are small, so here they
are written down (z_l = a_l W_l' + b_l, a_{l+1} = max(z_l, 0), and backwards), and each gradient is
added to its weights by the very product that forms it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.params import Layout
from mmfl.rng import Stream
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Trained, batches
from mmfl.train.resident import Resident
from mmfl.updates import LocalWork

__all__ = ["Dense"]

Ints = npt.NDArray[np.int64]


class Dense:
    """Trains the weights of a resident `mlp` in place."""

    def __init__(self, resident: Resident, inputs: Inputs, smoothing: float) -> None:
        self._flat = resident.flat
        self._velocity = torch.empty_like(self._flat)
        self._weights = _layers(self._flat, resident.layout)
        self._momenta = _layers(self._velocity, resident.layout)
        classes = len(self._weights[-1][1])
        self._answers = torch.eye(classes) * (1 - smoothing) + smoothing / classes
        self._inputs = inputs

    @torch.no_grad()
    def train(self, rows: Ints, work: LocalWork, *, rng: Stream) -> Trained:
        """Tau steps of SGD on the client's shard (Algorithm 1, lines 8-9)."""
        batch = self._inputs.batches(rows, rng=rng)
        steps, samples, first = 0, 0, math.nan
        for picked in batches(len(rows), work, rng=rng):
            x, y = batch(picked)
            answers = self._answers.index_select(0, y)
            *inputs, outputs = self._forward(x.flatten(1))
            logs = torch.log_softmax(outputs, 1)
            self._step(inputs, (logs.exp() - answers).div_(len(picked)), work, fresh=steps == 0)
            steps += 1
            if steps == 1:
                first = _cross_entropy(logs, answers)
            samples += len(picked)
        return Trained(samples, first, _cross_entropy(logs, answers) if steps > 1 else first)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """Each layer's input, and the logits."""
        passed = [x]
        for weight, bias in self._weights:
            if len(passed) > 1:
                passed[-1].relu_()
            passed.append(torch.addmm(bias, passed[-1], weight.t()))
        return passed

    def _step(self, inputs: list[Tensor], slope: Tensor, work: LocalWork, *, fresh: bool) -> None:
        """Backwards from the slope of the loss in the logits, updating on the way.

        Without momentum  w <- (1 - lr * decay) w - lr * g,  else  v <- momentum * v + g  here, and
        the rest,  v <- v + decay * w,  w <- w - lr * v,  for all weights at once.
        """
        keep, scale = 1 - work.lr * work.weight_decay, -work.lr
        moved = self._weights
        if work.momentum:
            keep, scale, moved = 0.0 if fresh else work.momentum, 1.0, self._momenta
        for number in reversed(range(len(inputs))):
            x, (weight, bias) = inputs[number], moved[number]
            before = slope.mm(self._weights[number][0]) if number else slope
            weight.addmm_(slope.t(), x, beta=keep, alpha=scale)
            bias.addmv_(slope.t(), slope.new_ones(len(slope)), beta=keep, alpha=scale)
            slope = before.mul_(x > 0) if number else slope
        if work.momentum:
            self._velocity.add_(self._flat, alpha=work.weight_decay)
            self._flat.add_(self._velocity, alpha=-work.lr)


def _cross_entropy(logs: Tensor, answers: Tensor) -> float:
    return -float((logs * answers).sum()) / len(logs)


def _layers(flat: Tensor, layout: Layout) -> list[tuple[Tensor, Tensor]]:
    """(weight, bias) of each layer, as views of a flat vector."""
    places = layout.places.values()
    parts = [flat[at : at + math.prod(shape)].view(shape) for at, shape in places]
    return list(zip(parts[::2], parts[1::2], strict=True))
