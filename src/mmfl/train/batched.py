"""Local training of small dense networks, several clients at once, gradients written out.

A step of a small network takes less time than telling torch about it. So there is no graph here
(z_l = a_l W_l' + b_l, a_{l+1} = max(z_l, 0), and backwards), and the clients of a chunk take their
steps together: all but the products themselves is done for all of them in one call.

What a client gets does not depend on its company, to the bit: each product is the client's own, on
memory that is aligned alike for all (the bits of a product depend on that), and a batch that is not
full is filled up with examples of weight zero to a size that the client's own data decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.params import Flat, Layout
from mmfl.train.inputs import Inputs
from mmfl.train.reference import Trained, Turn, batches
from mmfl.updates import CHUNK, LocalWork

__all__ = ["Batched"]

Ints = npt.NDArray[np.int64]

TOGETHER = 1 << 19
"""Clients share a step as long as they have at most so many weights together (2 MiB)."""


class Batched:
    """Trains an `mlp` without dropout on cross entropy, in memory of its own.

    Attributes:
        together: How many clients take a step together.
    """

    def __init__(self, layout: Layout, inputs: Inputs, smoothing: float) -> None:
        self.together = max(1, min(CHUNK, TOGETHER // max(1, layout.size)))
        self._inputs = inputs
        self._shapes = [shape for _, shape in layout.entries[::2]]
        self._weights = _aligned(self.together, layout.size)
        self._velocity = _aligned(self.together, layout.size)
        self._layers = _layers(self._weights, layout)
        self._momenta = _layers(self._velocity, layout)
        self._rooms: dict[int, _Room] = {}
        classes = self._shapes[-1][0]
        self._answers = torch.eye(classes) * (1 - smoothing) + smoothing / classes

    def train(self, weights: Flat, turns: Sequence[Turn]) -> Iterator[tuple[Flat, Trained]]:
        """Each turn's new weights, to be used before the next are asked for, and its report."""
        rows = self._weights.numpy()
        for _, alike in groupby(turns, key=_alike):
            some = list(alike)
            np.copyto(rows[: len(some)], weights)
            with torch.no_grad():
                done = self._together(some)
            for place, report in done:
                yield rows[place], report

    def _together(self, turns: Sequence[Turn]) -> list[tuple[int, Trained]]:
        """Tau steps of SGD for each of them; in which row its weights are, and its report."""
        plans = [list(batches(len(turn.rows), turn.work, rng=turn.rng)) for turn in turns]
        ranked = sorted(range(len(turns)), key=lambda k: -len(plans[k]))  # who goes on is in front
        before, after = np.full(len(turns), np.nan), np.full(len(turns), np.nan)
        work, width = turns[0].work, _width(turns[0])
        room = self._rooms.setdefault(width, _Room(self.together, width, self._shapes))
        for step in range(len(plans[ranked[0]])):
            active = [k for k in ranked if step < len(plans[k])]
            going = len(active)
            picked = [turns[k].rows[plans[k][step]] for k in active]
            examples, shares = _filled(picked, width)
            y = self._inputs.put(examples, room.inputs[0][:going])
            answers = self._answers.index_select(0, y).view(going, width, -1)
            logs = torch.log_softmax(self._forward(room, going), 2)
            if step == 0 or any(step == len(plans[k]) - 1 for k in active):
                losses = -((logs * answers).sum(2) * shares).sum(1).numpy().astype(np.float64)
                after[active] = losses
                before = after.copy() if step == 0 else before
            slope = torch.exp(logs, out=room.slopes[-1][:going])
            slope.sub_(answers).mul_(shares.unsqueeze(2))
            self._backward(room, going, work, fresh=step == 0)
        reports = [
            Trained(sum(map(len, plan)), float(one), float(other))
            for plan, one, other in zip(plans, before, after, strict=True)
        ]
        return [(ranked.index(k), reports[k]) for k in range(len(turns))]

    def _forward(self, room: _Room, going: int) -> Tensor:
        """The logits; the inputs of the layers stay in the room."""
        for number, layer in enumerate(self._layers):
            for k in range(going):
                weight, bias = layer[k]
                torch.addmm(bias, room.input[number][k], weight.t(), out=room.input[number + 1][k])
            if number + 1 < len(self._layers):
                room.inputs[number + 1][:going].relu_()
        return room.inputs[-1][:going]

    def _backward(self, room: _Room, going: int, work: LocalWork, *, fresh: bool) -> None:
        """From the slope of the loss in the logits, layer by layer, updating on the way.

        Without momentum  w <- (1 - lr * decay) w - lr * g,  else  v <- momentum * v + g,  and in
        the end, for all weights at once,  v <- v + decay * w,  w <- w - lr * v.
        """
        keep, scale, moved = 1 - work.lr * work.weight_decay, -work.lr, self._layers
        if work.momentum:
            keep, scale, moved = 0.0 if fresh else work.momentum, 1.0, self._momenta
        for number in reversed(range(len(self._layers))):
            for k in range(going):
                slope, (weight, bias) = room.slope[number][k], moved[number][k]
                if number:
                    torch.mm(slope, self._layers[number][k][0], out=room.slope[number - 1][k])
                weight.addmm_(slope.t(), room.input[number][k], beta=keep, alpha=scale)
                bias.addmv_(slope.t(), room.ones, beta=keep, alpha=scale)
            if number:  # past a ReLU an input is 0, where it lets no slope through, or positive
                room.slopes[number - 1][:going].mul_(room.inputs[number][:going].sign())
        if work.momentum:
            velocity, weights = self._velocity[:going], self._weights[:going]
            weights.add_(velocity.add_(weights, alpha=work.weight_decay), alpha=-work.lr)


class _Room:
    """Memory for a step of several clients whose batches have one width.

    Attributes:
        inputs: Each layer's input, and the logits: clients x width x numbers.
        slopes: Of the loss in each layer's outputs.
        input, slope: The same, client by client.
        ones: For sums over a batch.
    """

    def __init__(self, count: int, width: int, shapes: Sequence[tuple[int, ...]]) -> None:
        outputs = [shape[0] for shape in shapes]
        self.inputs = [_aligned(count, width, size) for size in (shapes[0][1], *outputs)]
        self.slopes = [_aligned(count, width, size) for size in outputs]
        self.input = [list(values) for values in self.inputs]
        self.slope = [list(values) for values in self.slopes]
        self.ones = torch.ones(width)


def _aligned(count: int, *shape: int) -> Tensor:
    """Zeros, each of the first dimension beginning at a multiple of 64 bytes."""
    size = math.prod(shape)
    made: Tensor = torch.zeros(count, -(-size // 16) * 16)[:, :size].unflatten(1, shape)
    return made


def _layers(flat: Tensor, layout: Layout) -> list[list[tuple[Tensor, Tensor]]]:
    """(weight, bias) of each layer and client, as views of flat vectors."""
    parts = [
        list(flat[:, at : at + math.prod(shape)].unflatten(1, shape))
        for at, shape in layout.places.values()
    ]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [list(zip(weights, biases, strict=True)) for weights, biases in pairs]


def _width(turn: Turn) -> int:
    """Its batches' size: the wanted one or, with a small shard, the next multiple of 8."""
    return min(turn.work.batch_size, -(-len(turn.rows) // 8) * 8)


def _alike(turn: Turn) -> tuple[float, ...]:
    """Turns that agree in this can be taken together."""
    return _width(turn), turn.work.lr, turn.work.momentum, turn.work.weight_decay


def _filled(picked: Sequence[Ints], width: int) -> tuple[Ints, Tensor]:
    """Rows of the data, batch after batch, each filled up to one width; and each row's share."""
    if all(len(rows) == width for rows in picked):
        return np.concatenate(picked), torch.full((len(picked), width), 1 / width)
    rows = np.zeros((len(picked), width), np.int64)
    shares = torch.zeros(len(picked), width)
    for number, some in enumerate(picked):
        rows[number, : len(some)] = some
        shares[number, : len(some)] = 1 / len(some)
    return rows.reshape(-1), shares
