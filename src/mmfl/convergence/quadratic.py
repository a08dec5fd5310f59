"""Quadratic tasks: every constant of the theorems exactly, not just a bound on it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mmfl.config import component
from mmfl.convergence.problem import Floats, Problem, Vector, as_trained, spread_left
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Quadratic"]


@component
class Quadratic(Problem):
    """An example x has the loss 1/2 sum_j a_j (w_j - x_j)^2.

    So F_k(w) = 1/2 sum_j a_j (w_j - m_kj)^2 + const with m_k the mean of the client's examples,
    which is its optimum; the optimum of f is the mean of all examples. L = max a, mu = min a.

    **Where training can get** (`box`). A step with rate eta <= 1/L and batch mean x is

        w_j <- (1 - eta a_j) w_j + eta a_j x_j,

    coordinate by coordinate a mean of w_j and x_j with weights >= 0, and aggregation is a mean of
    clients' weights. So each coordinate stays between the least and the greatest of its start and
    of all batch means that can be drawn, the extremes of which are the means of a client's b least
    and b greatest values. Projection onto that box is the identity, so a bound over it is a
    bound over the training, and the round loop needs no projection.

    **sigma^2.** g - grad F_k = a (m_k - x) does not depend on w: exact, see `spread_left`.

    **G^2.** E|g|^2 = sum_j a_j^2 (w_j - m_kj)^2 + sigma_k^2, which is greatest over the box in one
    of its corners, each coordinate by itself: exact for the box.

    Attributes:
        curvature: a, each > 0.
    """

    curvature: Vector

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.curvature) != len(self.start) or not all(a > 0 for a in self.curvature):
            raise ValueError(f"curvature must be {len(self.start)} numbers > 0")

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The losses of examples, at `start`."""
        from mmfl.convergence.modules import QuadraticLosses

        return QuadraticLosses(self)

    @cached_property
    def a(self) -> Floats:
        """(d) the curvature as it is trained with."""
        return as_trained(self.curvature)

    @property
    def L(self) -> float:  # noqa: N802
        """Max a."""
        return float(self.a.max())

    @property
    def mu(self) -> float:
        """Min a."""
        return float(self.a.min())

    @cached_property
    def optimum(self) -> Floats:
        """The mean of all examples."""
        mean: Floats = self.p @ self.own_optima
        return mean

    @cached_property
    def own_optima(self) -> Floats:
        """The mean of each client's examples."""
        return np.stack([x.mean(axis=0) for x in self.examples])

    def losses(self, w: Floats) -> Floats:
        """(K) F_k(w)."""
        return np.array([(np.square(w - x) @ self.a).mean() / 2.0 for x in self.examples])

    def error(self, w: Floats) -> float:
        """f(w) - f* = 1/2 sum_j a_j (w_j - w*_j)^2."""
        return float(self.a @ np.square(w - self.optimum)) / 2.0

    def box(self, batch_size: int) -> tuple[Floats, Floats]:
        """(d), (d) the least and the greatest that training can make of each coordinate."""
        ranked = [np.sort(x, axis=0) for x in self.examples]
        ends = [
            (x[:batch_size].mean(axis=0), x[max(0, len(x) - batch_size) :].mean(axis=0))
            for x in ranked
        ]
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
        return np.minimum(low, self.first), np.maximum(high, self.first)

    def noise(self, batch_size: int, rate: float) -> float:
        """sigma^2, exactly: the largest over clients."""
        return float(self._noises(batch_size).max())

    def slope(self, batch_size: int, rate: float) -> float:
        """G^2 over the box."""
        if rate * self.L > 1.0:
            raise InputError(f"the rate must be at most 1 / L = {1 / self.L:g}, got {rate:g}")
        low, high = self.box(batch_size)
        far = np.maximum(high - self.own_optima, self.own_optima - low)
        return float((np.square(self.a * far).sum(axis=1) + self._noises(batch_size)).max())

    def _noises(self, batch_size: int) -> Floats:
        """(K) sigma_k^2."""
        return np.array(
            [
                spread_left(len(x), batch_size) * float(np.square(self.a) @ x.var(axis=0))
                for x in self.examples
            ]
        )
