"""A task about which everything is known: what the theorems assume is computed, never estimated."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from mmfl.config import component
from mmfl.data import Arrays
from mmfl.errors import InputError
from mmfl.theory import Constants, gamma_gap

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Floats", "Problem", "TheOutputs", "Vector", "as_trained", "spread_left"]

Floats = npt.NDArray[np.float64]


def _to_lists(value: Any) -> Any:
    """Arrays as lists, also inside a list of them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_to_lists(item) for item in value] if isinstance(value, list | tuple) else value


Vector = Annotated[tuple[float, ...], BeforeValidator(_to_lists)]
Clients = Annotated[tuple[tuple[tuple[float, ...], ...], ...], BeforeValidator(_to_lists)]


@component
class Problem(ABC):
    """The clients' losses F_k of one task, strongly convex, with all that can be known of them.

    It is a data set and a model at once: a task's `dataset` and `model` are both this value, and
    its loss is `TheOutputs`. Its numbers are those that the trainer computes with, which are
    float32; the constants are exact for these (apart from rounding errors of training itself).

    Attributes:
        clients: Each client's examples: vectors, as many as it holds. Arrays will do.
        start: w^(0).
    """

    clients: Clients
    start: Vector

    def __post_init__(self) -> None:
        if not self.clients or not all(self.clients):
            raise ValueError("clients must be at least one, each with at least one example")
        lengths = {len(vector) for client in self.clients for vector in client}
        if lengths != {len(self.start)} or not self.start:
            raise ValueError(
                f"start and all examples must be vectors of the same length, got "
                f"{len(self.start)} and {', '.join(map(str, sorted(lengths)))}"
            )

    @cached_property
    def examples(self) -> list[Floats]:
        """Of each client (n_k, d)."""
        return [as_trained(client) for client in self.clients]

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(K) n_k."""
        return np.array([len(client) for client in self.clients])

    @cached_property
    def p(self) -> Floats:
        """(K) p_k = n_k / sum of n."""
        share: Floats = self.sizes / self.sizes.sum()
        return share

    @cached_property
    def first(self) -> Floats:
        """(d) w^(0)."""
        return as_trained(self.start)

    def load(self, data_dir: Path | None) -> Arrays:
        """The data set: its groups are the clients; its test split is the training data again.

        The targets mean nothing. They are 1, since a task whose blind guess has no loss at all
        counts as one that lies about it.
        """
        x = np.concatenate(self.examples).astype(np.float32)
        y = np.ones(len(x), np.float32)
        return Arrays(x, y, x, y, None, np.repeat(np.arange(len(self.sizes)), self.sizes))

    @abstractmethod
    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The model: from examples to the loss of each, at weights that begin at `start`."""

    @property
    @abstractmethod
    def L(self) -> float:  # noqa: N802
        """Smoothness of every F_k (Assumption 1)."""

    @property
    @abstractmethod
    def mu(self) -> float:
        """Strong convexity of every F_k (Assumption 2)."""

    @property
    @abstractmethod
    def optimum(self) -> Floats:
        """(d) w*, which minimises f = sum of p_k F_k."""

    @property
    @abstractmethod
    def own_optima(self) -> Floats:
        """(K, d) w_k*, which minimises F_k."""

    @abstractmethod
    def losses(self, w: Floats) -> Floats:
        """(K) F_k(w)."""

    @abstractmethod
    def error(self, w: Floats) -> float:
        """f(w) - f*, free of cancellation where w is near the optimum."""

    @abstractmethod
    def noise(self, batch_size: int, rate: float) -> float:
        """sigma^2 >= E|g - grad F_k|^2 wherever training can get (Assumption 3).

        Args:
            batch_size: Examples of a minibatch, drawn without replacement; all if there are fewer.
            rate: The largest learning rate; at most 1 / L.
        """

    @abstractmethod
    def slope(self, batch_size: int, rate: float) -> float:
        """G^2 >= E|g|^2 wherever training can get (Assumption 4); arguments as in `noise`."""

    @cached_property
    def gap(self) -> float:
        """Gamma = sum of p_k (F_k(w*) - F_k*)."""
        best = [self.losses(own)[k] for k, own in enumerate(self.own_optima)]
        return gamma_gap(self.p, self.losses(self.optimum), best)

    @cached_property
    def gap_of_any(self) -> float:
        """A bound on Gamma that holds for the objective f_W of every set W of clients.

        Gamma_W is the mean over W of F_k(w_W*) - F_k*, weighted by shares of the data. Since w_W*
        minimises f_W, the same mean is at least as large at any other point. Take w*, the optimum
        of all clients. A mean is at most its largest term, so
        Gamma_W <= max over all clients of F_k(w*) - F_k*.
        """
        best = np.array([self.losses(own)[k] for k, own in enumerate(self.own_optima)])
        return float((self.losses(self.optimum) - best).max())

    @cached_property
    def distance_of_any(self) -> float:
        """A bound on |w^(0) - w_W*|^2 that holds for every set W of clients, and for all of them.

        f_W is mu-strongly convex, so mu/2 |w* - w_W*|^2 <= f_W(w*) - f_W(w_W*). As no F_k is ever
        below F_k*, this is at most the mean over W of F_k(w*) - F_k*, hence at most `gap_of_any`.
        The rest is the triangle inequality.
        """
        apart = (2.0 * self.gap_of_any / self.mu) ** 0.5
        return float((self.distance(self.first) ** 0.5 + apart) ** 2)

    def restrict(self, clients: Iterable[int]) -> Self:
        """The problem of some of the clients: f is then their own objective f_W."""
        return dataclasses.replace(self, clients=tuple(self.clients[k] for k in clients))

    def distance(self, w: Floats) -> float:
        """|w - w*|^2."""
        return float(np.square(w - self.optimum).sum())

    def offset(self, gamma: float | None) -> float:
        """Gamma of the schedule 1 / (mu (t + gamma)): by default the least allowed, 4 L / mu."""
        least = 4.0 * self.L / self.mu
        if gamma is not None and gamma < least:
            raise InputError(f"gamma must be at least 4 L / mu = {least:g}, got {gamma:g}")
        return least if gamma is None else gamma

    def constants(
        self,
        *,
        tau: int,
        batch_size: int,
        gamma: float | None = None,
        skew: tuple[float, float] = (1.0, 1.0),
    ) -> Constants:
        """All that the convergence theorems assume of this task.

        Args:
            tau: Local steps.
            batch_size: Examples of a step.
            gamma: Of the schedule; by default 4 L / mu.
            skew: The least and the greatest selection skew.
        """
        offset = self.offset(gamma)
        rate = 1.0 / (self.mu * offset)
        return Constants(
            L=self.L,
            mu=self.mu,
            G=self.slope(batch_size, rate) ** 0.5,
            sigma=self.noise(batch_size, rate) ** 0.5,
            gap=self.gap,
            tau=float(tau),
            gamma=offset,
            rho_lo=skew[0],
            rho_hi=skew[1],
        )

    def unbiased(self, tau: int, batch_size: int) -> bool:
        """Whether Assumption 3 holds to the letter: each step's batch is new, whatever came before.

        A turn's passes each go through a new permutation, so within a pass what was drawn is not
        drawn again: the gradient of a later step is not unbiased given the earlier ones. It is if
        there is one step, or one batch a pass: the whole shard, or (since a smaller remainder is
        dropped) b of fewer than 2 b examples.
        """
        return tau == 1 or bool((self.sizes < 2 * batch_size).all())


@component
class TheOutputs:
    """A loss for models that give the loss of each example themselves: the mean of it."""

    targets: ClassVar[Any] = "any"
    metric: ClassVar[str] = "loss"

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean output."""
        return outputs.mean()


def as_trained(values: Sequence[Any] | Floats) -> Floats:
    """Numbers as the trainer has them, in float32, to be computed with in float64."""
    return np.asarray(values, np.float32).astype(np.float64)


def spread_left(n: int, batch_size: int) -> float:
    """How much of a population's variance the mean of b of its n members keeps.

    (n - b) / (b (n - 1)), drawn without replacement; 0 if all are drawn.
    """
    b = min(batch_size, n)
    return (n - b) / (b * (n - 1)) if n > b else 0.0
