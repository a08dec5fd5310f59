"""Networks whose outputs are the examples' losses, for tasks with known constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from mmfl.convergence.logistic import Logistic
    from mmfl.convergence.quadratic import Quadratic

__all__ = ["LogisticLosses", "QuadraticLosses"]


class QuadraticLosses(nn.Module):
    """1/2 sum_j a_j (w_j - x_j)^2."""

    def __init__(self, problem: Quadratic) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(problem.start))
        self.curvature = torch.tensor(problem.curvature)

    def forward(self, x: Tensor) -> Tensor:
        """Of each example."""
        return (self.w - x).square() @ self.curvature / 2.0


class LogisticLosses(nn.Module):
    """log(1 + exp(-z.w)) + lam/2 |w|^2."""

    def __init__(self, problem: Logistic) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(problem.start))
        self.penalty = problem.penalty

    def forward(self, z: Tensor) -> Tensor:
        """Of each example."""
        return functional.softplus(-(z @ self.w)) + self.penalty / 2.0 * self.w.square().sum()
