"""Local training of small dense networks, several clients at once, gradients written out.

A step of a small network takes less time than telling torch about it. So there is no graph here
(z_l = a_l W_l' + b_l, a_{l+1} = max(z_l, 0), and backwards), and the clients of a chunk take their
steps together: all but the products themselves is done for all of them in one call.

A client's result does not depend on the other clients, to the bit: each product is the client's
own, on memory that is aligned alike for all (the bits of a product depend on that), and a batch
that is not full is filled up with examples of weight zero to a size that the client's own data
decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmfl.exchange import CHUNK, Flat, Layout, LocalWork
from mmfl.train.inputs import Inputs
from mmfl.train.optimizers import clip_gradients
from mmfl.train.reference import Turn, TurnReport, batches

__all__ = ["Batched"]

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_Layers = list[list[tuple[Tensor, Tensor, Tensor]]]

TOGETHER = 1 << 19
"""Clients share a step as long as they have at most this many weights together (2 MiB)."""


class Batched:
    """Trains an `mlp` without dropout on cross entropy, in its own memory.

    Attributes:
        together: How many clients take a step together.
    """

    def __init__(self, layout: Layout, inputs: Inputs, smoothing: float) -> None:
        self.together = max(1, min(CHUNK, TOGETHER // max(1, layout.size)))
        self._inputs = inputs
        self._shapes = [shape for _, shape in layout.entries[::2]]
        self._first = _allocate_aligned(1, layout.size)
        self._rows = _allocate_aligned(self.together, layout.size)
        self._row = list(self._rows)
        momenta = _allocate_aligned(self.together, layout.size)
        self._velocity = list(momenta)
        self._start = [layer * self.together for layer in _layers(self._first, layout)]
        self._layers = _layers(self._rows, layout)
        self._momenta = _layers(momenta, layout)
        self._gradient = _allocate_aligned(2, layout.size)  # a gradient, and memory for FedProx
        self._gradient_layers = _layers(self._gradient[:1], layout)
        self._rooms: dict[int, _Room] = {}
        classes = self._shapes[-1][0]
        self._answers = torch.eye(classes) * (1 - smoothing) + smoothing / classes

    def train(
        self, weights: Flat, turns: Sequence[Turn], out: Callable[[], Flat] | None = None
    ) -> Iterator[tuple[Flat, TurnReport]]:
        """Each turn's change of the weights, and its report."""
        np.copyto(self._first.numpy()[0], weights)
        for _, alike in groupby(turns, key=_alike):
            for change, report in self._train_together(list(alike)):
                place = change if out is None else out()
                if place is not change:
                    np.copyto(place, change)
                yield place, report

    def _train_together(self, turns: Sequence[Turn]) -> Iterator[tuple[Flat, TurnReport]]:
        """Tau steps of SGD for each of them: its change of the weights, and its report."""
        schedule, room = _Schedule.of(turns), self._room(_width(turns[0]))
        before, after = self._descend(schedule, room)
        for k, plan in enumerate(schedule.plans):
            change = self._finish(schedule, room, k)
            yield change, TurnReport(sum(map(len, plan)), float(before[k]), float(after[k]))

    def _descend(self, schedule: _Schedule, room: _Room) -> tuple[Doubles, Doubles]:
        """All steps but the longest turns' last; each turn's loss before, and at its last step."""
        count, take_step = len(schedule.plans), self._choose_step(schedule.work)
        before, after = np.full(count, np.nan), np.full(count, np.nan)
        for step in range(schedule.last + 1):
            active = schedule.active(step)
            if step == 1:
                self._rows[: len(active)].add_(self._first)
            picked = [schedule.rows(k, step) for k in active]
            losses = self._slopes(room, picked, self._layers if step else self._start)
            after[active] = losses.numpy()
            before = after.copy() if step == 0 else before
            for place in range(len(active)) if step < schedule.last else ():
                take_step(room, place, place, schedule.work, fresh=step == 0)
        return before, after

    def _finish(self, schedule: _Schedule, room: _Room, k: int) -> Flat:
        """A turn's change of the weights, after its last step if it is one of the longest.

        That step is made here, client by client, so that the change is still in the processor's
        cache when it is used.
        """
        place, steps, last = schedule.ranked.index(k), len(schedule.plans[k]), schedule.last
        row = place if last else 0
        if steps == last + 1:
            take_step = self._choose_step(schedule.work)
            take_step(room, place, row, schedule.work, fresh=last == 0)
        if steps > 1:
            self._row[row].sub_(self._first[0])
        change: Flat = self._row[row].numpy()
        return change

    def _slopes(self, room: _Room, picked: Sequence[Ints], layers: _Layers) -> Tensor:
        """Forward and backward; inputs and slopes of all layers stay in the room.

        Returns:
            The loss of each batch.
        """
        going, width = len(picked), room.width
        examples, shares = _fill_batches(picked, width)
        y = self._inputs.put(examples, room.inputs[0][:going])
        answers = self._answers.index_select(0, y).view(going, width, -1)
        for number, layer in enumerate(layers):
            for k in range(going):
                _, turned, bias = layer[k]
                torch.addmm(bias, room.input[number][k], turned, out=room.input[number + 1][k])
            if number + 1 < len(layers):
                room.inputs[number + 1][:going].relu_()
        logs = torch.log_softmax(room.inputs[-1][:going], 2)
        slope = torch.exp(logs, out=room.slopes[-1][:going])
        slope.sub_(answers).mul_(shares.unsqueeze(2))
        for number in reversed(range(1, len(layers))):
            for k in range(going):
                torch.mm(room.slope[number][k], layers[number][k][0], out=room.slope[number - 1][k])
            # Past a ReLU an input is 0, where it lets no slope through, or positive.
            room.slopes[number - 1][:going].mul_(room.inputs[number][:going].sign())
        return -((logs * answers).sum(2) * shares).sum(1)

    def _choose_step(self, work: LocalWork) -> Callable[..., None]:
        return self._step_adjusted if work.prox or work.clip_norm is not None else self._step

    def _step(self, room: _Room, place: int, row: int, work: LocalWork, *, fresh: bool) -> None:
        """One client's step, from its place in the room to its row of weights.

        Without momentum  w <- (1 - lr decay) w - lr g,  else  v <- momentum v + g + decay w,
        w <- w - lr v. A first step, made from weights that all clients share, puts its change
        into the row, any other the new weights.
        """
        decay, weights, velocity = work.weight_decay, self._row[row], self._velocity[row]
        keep, scale, moved = 1 - work.lr * decay, -work.lr, self._layers
        if work.momentum:
            keep, scale, moved = work.momentum, 1.0, self._momenta
        if fresh:
            keep = 0.0
        for number, layer in enumerate(moved):
            weight, _, bias = layer[row]
            turned = room.turned[number][place]
            weight.addmm_(turned, room.input[number][place], beta=keep, alpha=scale)
            bias.addmv_(turned, room.ones, beta=keep, alpha=scale)
        if work.momentum:
            if decay:
                velocity.add_(self._first[0] if fresh else weights, alpha=decay)
            if fresh:
                torch.mul(velocity, -work.lr, out=weights)
            else:
                weights.add_(velocity, alpha=-work.lr)
        elif fresh and decay:
            weights.add_(self._first[0], alpha=-work.lr * decay)

    def _step_adjusted(
        self, room: _Room, place: int, row: int, work: LocalWork, *, fresh: bool
    ) -> None:
        """The same with FedProx's term and clipping, which need the gradient by itself.

        g <- g + prox (w - w_global), which is 0 in a first step; then g <- g min(1, clip / |g|).
        """
        slope, scratch = self._gradient
        weights, velocity, first = self._row[row], self._velocity[row], self._first[0]
        for number, layer in enumerate(self._gradient_layers):
            weight, _, bias = layer[0]
            turned = room.turned[number][place]
            torch.mm(turned, room.input[number][place], out=weight)
            torch.mv(turned, room.ones, out=bias)
        if work.prox and not fresh:
            slope.add_(torch.sub(weights, first, out=scratch), alpha=work.prox)
        if work.clip_norm is not None:
            clip_gradients([slope], work.clip_norm)
        if work.weight_decay:
            slope.add_(first if fresh else weights, alpha=work.weight_decay)
        if work.momentum:
            slope = velocity.copy_(slope) if fresh else velocity.mul_(work.momentum).add_(slope)
        if fresh:
            torch.mul(slope, -work.lr, out=weights)
        else:
            weights.add_(slope, alpha=-work.lr)

    def _room(self, width: int) -> _Room:
        if width not in self._rooms:
            self._rooms[width] = _Room(self.together, width, self._shapes)
        return self._rooms[width]


class _Room:
    """Memory for a step of several clients whose batches have one width.

    Attributes:
        inputs: Each layer's input, and the logits: clients x width x numbers.
        slopes: Of the loss in each layer's outputs.
        input, slope: The same, client by client.
        turned: Each slope transposed.
        ones: For sums over a batch.
        width: Of a batch.
    """

    def __init__(self, count: int, width: int, shapes: Sequence[tuple[int, ...]]) -> None:
        outputs = [shape[0] for shape in shapes]
        self.inputs = [_allocate_aligned(count, width, size) for size in (shapes[0][1], *outputs)]
        self.slopes = [_allocate_aligned(count, width, size) for size in outputs]
        self.input = [list(values) for values in self.inputs]
        self.slope = [list(values) for values in self.slopes]
        self.turned = [[one.t() for one in values] for values in self.slope]
        self.ones = torch.ones(width)
        self.width = width


def _allocate_aligned(count: int, *shape: int) -> Tensor:
    """Zeros, each of the first dimension beginning at a multiple of 64 bytes."""
    size = math.prod(shape)
    made: Tensor = torch.zeros(count, -(-size // 16) * 16)[:, :size].unflatten(1, shape)
    return made


def _layers(flat: Tensor, layout: Layout) -> _Layers:
    """Weight, its transpose, and bias of each layer and client, as views of flat vectors."""
    parts = [
        list(flat[:, at : at + math.prod(shape)].unflatten(1, shape))
        for at, shape in layout.places.values()
    ]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [
        [(w, w.t(), b) for w, b in zip(weights, biases, strict=True)] for weights, biases in pairs
    ]


def _width(turn: Turn) -> int:
    """Its batches' size: the wanted one or, with a small shard, the next multiple of 8."""
    return min(turn.work.batch_size, -(-len(turn.rows) // 8) * 8)


@dataclass(eq=False)
class _Schedule:
    """The batches of turns that are taken together.

    Attributes:
        turns: Whose.
        plans: Each turn's batches, as places in its rows.
        ranked: The turns' numbers, longest first: who still trains is in front.
        last: The number of the last step of the longest turns, from 0.
        work: What all of them have in common.
    """

    turns: Sequence[Turn]
    plans: Sequence[Sequence[Ints]]
    ranked: Sequence[int]
    last: int
    work: LocalWork

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> _Schedule:
        plans = [list(batches(len(turn.rows), turn.work, rng=turn.rng)) for turn in turns]
        ranked = sorted(range(len(turns)), key=lambda k: -len(plans[k]))
        return cls(turns, plans, ranked, len(plans[ranked[0]]) - 1, turns[0].work)

    def active(self, step: int) -> list[int]:
        """The turns that have such a step."""
        return [k for k in self.ranked if step < len(self.plans[k])]

    def rows(self, k: int, step: int) -> Ints:
        """The examples of a turn's batch."""
        return self.turns[k].rows[self.plans[k][step]]


def _alike(turn: Turn) -> tuple[float | None, ...]:
    """Turns that agree in this can be taken together."""
    work = turn.work
    rule = work.lr, work.momentum, work.weight_decay, work.clip_norm, work.prox
    return _width(turn), *rule


def _fill_batches(picked: Sequence[Ints], width: int) -> tuple[Ints, Tensor]:
    """Rows of the data, batch after batch, each filled up to one width; and each row's share."""
    if all(len(rows) == width for rows in picked):
        return np.concatenate(picked), torch.full((len(picked), width), 1 / width)
    rows = np.zeros((len(picked), width), np.int64)
    shares = torch.zeros(len(picked), width)
    for number, some in enumerate(picked):
        rows[number, : len(some)] = some
        shares[number, : len(some)] = 1 / len(some)
    return rows.reshape(-1), shares
