"""Regularised logistic regression with proven constants, and optima to machine precision."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, lambertw

from mmfl.config import Positive, component
from mmfl.convergence.problem import Floats, Problem, spread_left
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["KAPPA", "Logistic"]

KAPPA = float(lambertw(np.exp(-1.0)).real)
"""The greatest value of u s(-u), where s is the logistic function: W(1/e) = 0.278...

Its slope s(-u) (1 - u s(u)) is 0 where u s(u) = 1, which is (u - 1) e^(u-1) = 1/e; there u s(-u) =
u - u s(u) = u - 1.
"""


@component
class Logistic(Problem):
    """An example z has the loss log(1 + exp(-z.w)) + lam/2 |w|^2; z = y x of a label y = +-1.

    With s the logistic function and u = z.w, the gradient is lam w - s(-u) z, and the Hessian
    lam I + s(u) s(-u) z z'. Since s(u) s(-u) <= 1/4, every F_k is L-smooth with
    L = lam + max over clients of the largest eigenvalue of Z'Z / (4 n), and lam-strongly convex.

    **Where training can get** (`radius`). Let v be a batch's mean of s(-u) z. A step with rate
    eta <= 1/lam is w <- (1 - eta lam) w + eta v. As |v| <= R = max |z|, and w.v, the batch's mean
    of s(-u) u, is at most `KAPPA`,

        |w'|^2 <= (1 - eta lam)^2 |w|^2 + 2 (1 - eta lam) eta kappa + eta^2 R^2,

    which is at most r^2 for all |w| <= r if
    r^2 >= (2 (1 - eta lam) kappa + eta R^2) / (2 lam - eta lam^2) for the step's rate. The right
    side is a quotient of affine functions of eta, hence monotone: the larger of its values at 0 and
    at the largest rate serves all rates. Balls are convex, so aggregation stays inside. (At eta =
    1/lam this is the well-known R / lam; with rates <= 1/(4L) it is much less.) All optima are
    inside, too: lam w* = mean of s(-u) z gives lam |w*|^2 <= kappa. As for `Quadratic`, projection
    onto the ball is then the identity.

    **G^2.** In the ball -u <= r |z|, so |g| <= lam r + the batch's mean of |z| s(r |z|), at most
    that of a client's b largest.

    **sigma^2.** g - grad F_k is the mean of s(-u) z over a batch minus that over the shard, and a
    variance is at most the second moment: at most the shard's mean of |z|^2 s(r |z|)^2, times what
    a batch leaves of it (`spread_left`).

    Attributes:
        penalty: lam.
    """

    penalty: Positive

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The losses of examples, at `start`."""
        from mmfl.convergence.modules import LogisticLosses

        return LogisticLosses(self)

    @cached_property
    def L(self) -> float:  # noqa: N802
        """The penalty, and the largest eigenvalue of any client's Z'Z / (4 n)."""
        steep = [np.linalg.norm(z, 2) ** 2 / (4.0 * len(z)) for z in self.examples]
        return float(self.penalty + max(steep))

    @property
    def mu(self) -> float:
        """The penalty."""
        return self.penalty

    @cached_property
    def optimum(self) -> Floats:
        """w* by Newton's method."""
        return self._minimiser(np.concatenate(self.examples))

    @cached_property
    def own_optima(self) -> Floats:
        """w_k* by Newton's method."""
        return np.stack([self._minimiser(z) for z in self.examples])

    def losses(self, w: Floats) -> Floats:
        """(K) F_k(w)."""
        ridge = self.penalty / 2.0 * float(w @ w)
        return np.array([np.logaddexp(0.0, -z @ w).mean() + ridge for z in self.examples])

    def error(self, w: Floats) -> float:
        """f(w) - f*, minus the gradient at w*, which is 0: every term is then >= 0."""
        z, best = np.concatenate(self.examples), self.optimum
        u, at = z @ w, z @ best
        apart = np.logaddexp(0.0, -u) - np.logaddexp(0.0, -at) + expit(-at) * (u - at)
        return float(apart.mean() + self.penalty / 2.0 * np.square(w - best).sum())

    def radius(self, rate: float) -> float:
        """r: no step with a rate up to this leaves the ball |w| <= r."""
        if rate * self.L > 1.0:
            raise InputError(f"the rate must be at most 1 / L = {1 / self.L:g}, got {rate:g}")
        lam, most = self.penalty, max(np.square(z).sum(axis=1).max() for z in self.examples)
        at_rate = (2.0 * (1.0 - rate * lam) * KAPPA + rate * most) / (lam * (2.0 - rate * lam))
        return float(max(KAPPA / lam, at_rate, self.first @ self.first) ** 0.5)

    def noise(self, batch_size: int, rate: float) -> float:
        """A bound on sigma^2 over the ball."""
        return max(
            spread_left(len(pull), batch_size) * float(np.square(pull).mean())
            for pull in self._pulls(rate)
        )

    def slope(self, batch_size: int, rate: float) -> float:
        """A bound on G^2 over the ball."""
        most = max(float(np.sort(pull)[-batch_size:].mean()) for pull in self._pulls(rate))
        return (self.penalty * self.radius(rate) + most) ** 2

    def _pulls(self, rate: float) -> list[Floats]:
        """Of each client (n_k) |z| s(r |z|), the most that an example can pull."""
        lengths = [np.linalg.norm(z, axis=1) for z in self.examples]
        return [length * expit(self.radius(rate) * length) for length in lengths]

    def _minimiser(self, z: Floats) -> Floats:
        """Newton's method, halving steps that do not make the gradient smaller."""
        w = np.zeros(z.shape[1])
        slope = self._gradient(z, w)
        for _ in range(100):
            s = expit(z @ w)
            hessian = (z * (s * (1.0 - s))[:, None]).T @ z / len(z)
            step = np.linalg.solve(hessian + self.penalty * np.eye(len(w)), slope)
            while np.linalg.norm(step) > 1e-17:
                tried = self._gradient(z, w - step)
                if np.linalg.norm(tried) < np.linalg.norm(slope):
                    break
                step = step / 2.0
            else:
                return w  # no step helps any more: only rounding errors are left
            w, slope = w - step, tried
        return w

    def _gradient(self, z: Floats, w: Floats) -> Floats:
        slope: Floats = self.penalty * w - expit(-z @ w) @ z / len(z)
        return slope
