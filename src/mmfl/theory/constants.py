"""What the convergence theorems assume about a task."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mmfl.errors import InputError

__all__ = ["Constants"]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of Assumptions 1 to 4 for one task, and its selection skew.

    Attributes:
        L: Smoothness of every client's loss.
        mu: Its strong convexity; mu <= L.
        G: Bound on the norm of a stochastic gradient: E|g|^2 <= G^2.
        sigma: Bound on its noise: E|g - grad F_k|^2 <= sigma^2.
        gap: Gamma_s (`gamma_gap`); 0 if all clients have one optimum.
        tau: Local steps in a round.
        gamma: Offset of the learning rate 1 / (mu (t + gamma)); by default 4 L / mu, the least for
            which the theorem's proof works (eta_t <= 1 / (4 L)). The paper leaves it free.
        rho_lo: Lower bound on the selection skew over the training: 1 where clients hold equally
            much, given that somebody is selected.
        rho_hi: Upper bound on it.
    """

    L: float
    mu: float
    G: float
    sigma: float = 0.0
    gap: float = 0.0
    tau: float = 1.0
    gamma: float | None = None
    rho_lo: float = 1.0
    rho_hi: float = 1.0

    def __post_init__(self) -> None:
        for name in ("L", "mu", "G", "sigma", "gap", "tau", "rho_lo", "rho_hi"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InputError(f"{name} must be finite and >= 0, got {value}")
        if not 0 < self.mu <= self.L:
            raise InputError(f"0 < mu <= L is needed, got mu = {self.mu} and L = {self.L}")
        if not 0 < self.rho_lo <= self.rho_hi:
            raise InputError(f"0 < rho_lo <= rho_hi is needed, got {self.rho_lo} and {self.rho_hi}")
        if not 0 < self.offset < math.inf:
            raise InputError(f"gamma must be finite and > 0, got {self.gamma}")

    @property
    def offset(self) -> float:
        """Gamma of the schedule, as given or 4 L / mu."""
        return 4.0 * self.L / self.mu if self.gamma is None else self.gamma

    def rate(self, t: float) -> float:
        """eta_t = 1 / (mu (t + gamma)); t counts the rounds in which the task trained."""
        return 1.0 / (self.mu * (t + self.offset))
