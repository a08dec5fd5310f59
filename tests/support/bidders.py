"""Clients that ask for money: for tests of recruitment above engines."""

from __future__ import annotations

from pathlib import Path

from mmfl.experiment import RecruitmentSettings
from mmfl.market.bids_io import Csv
from support.crowd import mock, step


def write_bids(rows: list[list[object]], path: str = "bids.csv") -> Csv:
    """A file of bids for tasks a, b, c."""
    lines = ["client,a,b,c", *(",".join(map(str, row)) for row in rows)]
    Path(path).write_text("\n".join(lines) + "\n")
    return Csv(path)


def hired(settings: RecruitmentSettings, turn=step, **options):
    return mock(turn, changes={"recruitment": settings}, **options)
