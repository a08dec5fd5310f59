"""Does anybody gain by lying, and which auction recruits how many?"""

from __future__ import annotations

from mmfl.market.truthfulness.audit import Audit, audit
from mmfl.market.truthfulness.best_response import Response, best_response, responses
from mmfl.market.truthfulness.contest import Contest, Result, auctions, contest, make_contest
from mmfl.market.truthfulness.manipulability import InTask, Manipulability, manipulability
from mmfl.market.truthfulness.markups import MarkUps, mark_ups

__all__ = [
    "Audit",
    "Contest",
    "InTask",
    "Manipulability",
    "MarkUps",
    "Response",
    "Result",
    "auctions",
    "audit",
    "best_response",
    "contest",
    "make_contest",
    "manipulability",
    "mark_ups",
    "responses",
]
