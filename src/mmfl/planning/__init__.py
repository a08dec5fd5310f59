"""What-if planning: what an alpha and a budget will do, before anything is spent. Free of torch.

    import mmfl
    prediction = mmfl.plan(experiment, alphas=[1, 3, 5], budgets=[10, 20], runs=["runs/first"])
    prediction.at(3, 20).tasks["fashion"].clients.mean

Planning is the round loop itself on an engine that trains nothing (`mmfl.planning.surrogate`).
docs/explanation/planning.md says what it assumes, and how wrong it was.
"""

from __future__ import annotations

from mmfl.planning.curves import Curve, PowerLaw, work_done
from mmfl.planning.learning import DEFAULT_BETA, History, Learning, best_beta, scatter
from mmfl.planning.outlook import Estimate, Outlook, Plan, Reach, Scenario
from mmfl.planning.predict import Knowledge, Planning, plan
from mmfl.planning.surrogate import Surrogate

__all__ = [
    "DEFAULT_BETA",
    "Curve",
    "Estimate",
    "History",
    "Knowledge",
    "Learning",
    "Outlook",
    "Plan",
    "Planning",
    "PowerLaw",
    "Reach",
    "Scenario",
    "Surrogate",
    "best_beta",
    "plan",
    "scatter",
    "work_done",
]
