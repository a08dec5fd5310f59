"""Faults in a run directory: stored and counted; and directories that know nothing of them."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.runs import RunStore
from mmfl.runs.faults import count_faults, count_quarantined, longest, tallies
from support.rewriting import make_older

BAD = """
[faults]
dropout = 0.3
speed = { kind = "lognormal", median = 20.0, sigma = 0.5 }
deadline = 2.0
[[faults.clients]]
does = "nan"
share = 0.4
[[faults.clients]]
does = "duplicate"
share = 1.0
[quarantine]
strikes = 1
"""


@pytest.fixture
def bad(small_toml):
    return Experiment.from_toml(small_toml + BAD, sets=["rounds=4"])


def test_rounds_have_virtual_time_and_a_number_in_quarantine(bad, tmp_path):
    records = list(mmfl.rounds(bad))
    run = mmfl.run(bad, tmp_path / "run")
    with closing(RunStore.open(tmp_path / "run")) as store:
        rows = store.rows("SELECT virtual, quarantined FROM round ORDER BY round")
        assert longest(store) == max(record.virtual for _, record in records) == 2.0
        assert count_quarantined(store) == run.quarantined > 0
    away = [sum(until > 0 for _, until in state.offenders.values()) for state, _ in records]
    assert rows == [(r.virtual, n) for (_, r), n in zip(records, away, strict=True)]
    assert set(run.faults) == {"dropout", "duplicate", "late", "nan"}
    assert run.faults["duplicate"].refused == run.faults["duplicate"].injected > 0
    assert run.complaint.startswith(("dropout: ", "late: needs ", "not finite: "))


def test_a_run_without_faults_has_none(small, tmp_path):
    run = mmfl.run(small, tmp_path / "run")
    assert (run.faults, run.quarantined) == ({}, 0)
    assert "faults" not in json.loads(run.to_json())
    with closing(RunStore.open(tmp_path / "run")) as store:
        assert longest(store) is None
        assert count_faults(store) == []


def test_a_run_of_an_older_version_still_loads(bad, tmp_path):
    run = mmfl.run(bad, tmp_path / "run")
    make_older(tmp_path / "run", faults=False)
    old = Run.load(tmp_path / "run")
    assert (old.faults, old.quarantined) == ({}, 0)
    assert (old.fingerprint, old.tasks) == (run.fingerprint, run.tasks)
    with closing(RunStore.open(tmp_path / "run")) as store:
        assert (tallies(store), count_faults(store), longest(store)) == ({}, [], None)
