"""Stored runs with an auction, faults and failures, and reports on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mmfl
from mmfl.report.document import gather
from support.experiments import write_small
from support.reports import NASTY, RICH


@pytest.fixture(scope="session")
def rich(tmp_path_factory) -> Path:
    """A comparison of two variants over three seeds."""
    folder = tmp_path_factory.mktemp("rich") / "both"
    first = mmfl.Experiment.from_toml(RICH)
    other = mmfl.Experiment.from_toml(RICH, sets=["allocator.kind=uniform", "local.lr=0.03"])
    mmfl.compare({NASTY: first, "uniform": other}, [2, 3, 5], folder, jobs=1)
    names = {"variants": [{"name": NASTY}, {"name": "uniform"}]}
    (folder / "comparison.json").write_text(json.dumps(names))
    return folder


@pytest.fixture(scope="session")
def content(rich) -> dict:
    """What a report on it says."""
    return gather([rich], target=0.2)


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> Path:
    """One run of one task, without anything special."""
    folder = tmp_path_factory.mktemp("plain") / "plain"
    return mmfl.run(mmfl.Experiment.from_toml(write_small("only")), folder).folder
