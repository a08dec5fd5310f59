"""Recruitment: auctions that decide who agrees to train what, and what each is paid. Free of torch.

    from mmfl.market import max_min_fair
    outcome = max_min_fair(bids, budget=29.0)   # bids: clients x tasks; inf = unwilling
    outcome.participation, outcome.payment, outcome.take_up, outcome.spent

`MECHANISMS` is the family's table.
"""

from __future__ import annotations

from mmfl.config import Family
from mmfl.market.baselines import (
    GreedyWithinBudget,
    RandomWithinBudget,
    ValueThreshold,
    greedy_within_budget,
    random_within_budget,
    value_threshold,
)
from mmfl.market.bids import SLACK, Bids, Floats, Ints
from mmfl.market.bids_io import Market, read_bids, simulated_bids, write_awards
from mmfl.market.budget_fair import BudgetFair, budget_fair
from mmfl.market.by_rounds import max_min_fair_by_rounds
from mmfl.market.gmm_fair import GMMFair, gmm_fair
from mmfl.market.max_min_fair import MaxMinFair, max_min_fair
from mmfl.market.recruitment import (
    Fraction,
    Mechanism,
    Recruitment,
    has_budget,
    replace_budget,
)
from mmfl.market.truthfulness import audit, best_response, contest, manipulability
from mmfl.market.verify import (
    budget_violation,
    is_budget_feasible,
    is_individually_rational,
    is_max_min_optimal,
    max_min_optimum,
    optimality_violation,
    rationality_violation,
)

__all__ = [
    "MECHANISMS",
    "SLACK",
    "Bids",
    "BudgetFair",
    "Floats",
    "Fraction",
    "GMMFair",
    "GreedyWithinBudget",
    "Ints",
    "Market",
    "MaxMinFair",
    "Mechanism",
    "RandomWithinBudget",
    "Recruitment",
    "ValueThreshold",
    "audit",
    "best_response",
    "budget_fair",
    "budget_violation",
    "contest",
    "gmm_fair",
    "greedy_within_budget",
    "has_budget",
    "is_budget_feasible",
    "is_individually_rational",
    "is_max_min_optimal",
    "manipulability",
    "max_min_fair",
    "max_min_fair_by_rounds",
    "max_min_optimum",
    "optimality_violation",
    "random_within_budget",
    "rationality_violation",
    "read_bids",
    "replace_budget",
    "simulated_bids",
    "value_threshold",
    "write_awards",
]

MECHANISMS = Family(
    name="mechanism",
    table={
        "budget_fair": BudgetFair,
        "gmm_fair": GMMFair,
        "greedy_within_budget": GreedyWithinBudget,
        "max_min_fair": MaxMinFair,
        "random_within_budget": RandomWithinBudget,
        "value_threshold": ValueThreshold,
    },
    needs=("recruit",),
)
