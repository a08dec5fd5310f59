"""The paper's analysis as functions: selection, convergence bounds, who joins. Needs no torch.

    from mmfl.theory import Constants, expected_weights, t_step_bound
    expected_weights([0.9, 0.1], q=0.5)
    t_step_bound(1000, Constants(L=1.0, mu=1.0, G=1.0), distance=1.0)

Everything is corrected where the paper errs; `mmfl.theory.printed` has the formulas as printed, and
docs/explanation/theory.md walks through every statement. `mmfl.fairness` measures how even a
result is.
"""

from __future__ import annotations

from mmfl.allocate import allocation_probabilities
from mmfl.theory import printed
from mmfl.theory.bounds import (
    auction_bound,
    corollary_bound,
    one_step_bound,
    recursion_bound,
    t_step_bound,
)
from mmfl.theory.constants import Constants
from mmfl.theory.joining import (
    Joining,
    join_budget_fair,
    join_max_min,
    join_sampled,
    lowest,
    no_user_probability,
    no_user_probability_exp,
)
from mmfl.theory.sampled import Sampled, sampled_weights
from mmfl.theory.selection import (
    expected_weights,
    gamma_gap,
    inverse_size_term,
    pair_weight,
    selection_probability,
    selection_probability_active,
    selection_skew,
    skew_bounds,
    square_weight_term,
)
from mmfl.theory.starving import expected_clients, expected_take_up, starvation_probability

__all__ = [
    "Constants",
    "Joining",
    "Sampled",
    "allocation_probabilities",
    "auction_bound",
    "corollary_bound",
    "expected_clients",
    "expected_take_up",
    "expected_weights",
    "gamma_gap",
    "inverse_size_term",
    "join_budget_fair",
    "join_max_min",
    "join_sampled",
    "lowest",
    "no_user_probability",
    "no_user_probability_exp",
    "one_step_bound",
    "pair_weight",
    "printed",
    "recursion_bound",
    "sampled_weights",
    "selection_probability",
    "selection_probability_active",
    "selection_skew",
    "skew_bounds",
    "square_weight_term",
    "starvation_probability",
    "t_step_bound",
]
