"""Stored runs that the dashboard shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import stored_rounds
from support.asking import Visitor
from support.experiments import write_small
from support.reports import NASTY, RICH


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A finished run, one with an auction, an unfinished one, and a comparison."""
    folder = tmp_path_factory.mktemp("made") / "runs"
    small = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 3"))
    mmfl.run(small, folder / "done")
    mmfl.run(mmfl.Experiment.from_toml(RICH), folder / "rich")
    with stored_rounds(small, folder / "stopped") as rounds:
        next(rounds)
    even = mmfl.Experiment.from_toml(small.to_toml(), sets=["allocator.kind=uniform"])
    mmfl.compare({NASTY: small, "uniform": even}, [0, 1], folder / "both", jobs=1)
    return folder


@pytest.fixture
def runs(made, tmp_path) -> Path:
    """A copy of them, to be changed."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def visitor(made) -> Visitor:
    """A browser that looks at them."""
    return Visitor(made)
