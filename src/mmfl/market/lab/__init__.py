"""The laboratory: does anybody gain by lying, and which auction recruits how many?"""

from __future__ import annotations

from mmfl.market.lab.audit import Audit, audit
from mmfl.market.lab.contest import Contest, Result, contest
from mmfl.market.lab.manipulability import InTask, Manipulability, manipulability
from mmfl.market.lab.markups import MarkUps, mark_ups
from mmfl.market.lab.truthfulness import Response, best_response, responses

__all__ = [
    "Audit",
    "Contest",
    "InTask",
    "Manipulability",
    "MarkUps",
    "Response",
    "Result",
    "audit",
    "best_response",
    "contest",
    "manipulability",
    "mark_ups",
    "responses",
]
