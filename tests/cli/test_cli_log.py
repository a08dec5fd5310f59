"""``mmfl log``: starts, rounds, failures, resumes and the end of a run."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import RunStore, read_events, stored_rounds
from support.experiments import write_small

FAULTY = write_small("a", "b", top="rounds = 4\nseed = 2", clients="count = 8") + (
    '[[faults.clients]]\nids = [1, 3]\ndoes = "nan"\n'
)
AUCTION = write_small("a", "b") + (
    '[recruitment]\nmechanism = { kind = "max_min_fair", budget = 3.0 }\n'
    'bids = { kind = "uniform" }\n'
)


def events(call, *words: str) -> list[dict]:
    code, out, err = call("log", "run", "--json", *words)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_each_round_is_a_line_with_its_metrics(call, small):
    run = mmfl.run(small, "run")
    code, out, err = call("log", "run")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "started (mmfl " in lines[0]
    metrics = run.table("metrics")
    for t in (1, 2, 3):
        tasks = [f"{s.task} {s.metric:.4f} ({s.clients})" for s in metrics if s.round == t]
        assert lines[t].startswith(f"round {t}  {'  '.join(tasks)}  ")
    assert lines[4:] == [f"finished after round 3, fingerprint {run.fingerprint}"]


def test_a_resume_stands_before_the_round_that_it_began_with(call, small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    assert [one["event"] for one in events(call)] == ["start", "round", "end"]
    assert call("log", "run")[1].splitlines()[-1] == "stopped after round 1"
    mmfl.run(small, "run", resume=True)
    found = events(call)
    assert [(one["event"], one["round"]) for one in found] == [
        *(("start", 0), ("round", 1), ("resume", 1), ("round", 2), ("round", 3), ("end", 3)),
    ]
    assert found[2]["time"] > "2020"
    assert "resumed after round 1 (mmfl " in call("log", "run")[1]


def test_faults_and_failures_stand_under_their_round(call):
    run = mmfl.run(mmfl.Experiment.from_toml(FAULTY), "run")
    failures, faults = run.failures(), run.table("faults")
    assert failures
    assert faults
    found = {one["round"]: one for one in events(call) if one["event"] == "round"}
    for t, one in found.items():
        assert one["failures"] == [drop_round(row) for row in failures if row.round == t]
        assert one["faults"] == [drop_round(row) for row in faults if row.round == t]
    out = call("log", "run")[1]
    first = failures[0]
    assert f"  failed turn: client {first.client}, {first.task}: {first.reason}: " in out
    assert f"  fault: client {faults[0].client}, {faults[0].task}: nan, refused" in out


def drop_round(row) -> dict:
    return {key: value for key, value in row._asdict().items() if key != "round"}


def test_only_the_last_rounds_or_those_with_failures(call, small):
    mmfl.run(small, "run")
    assert [one["round"] for one in events(call, "--tail", "2")] == [2, 3, 3]
    assert [one["event"] for one in events(call, "--failures")] == ["start", "end"]
    assert len(events(call, "-n", "9")) == 5


def test_the_auction_is_told(call):
    run = mmfl.run(mmfl.Experiment.from_toml(AUCTION), "run")
    one = events(call)[1]
    assert (one["event"], one["mechanism"]) == ("auction", "max_min_fair")
    assert one["tasks"]["a"]["take_up"] == run.recruitment.tasks["a"].take_up
    assert "auction (max_min_fair): recruited for a " in call("log", "run")[1]


def test_a_run_is_followed_to_its_end(call, small, monkeypatch):
    monkeypatch.setattr("mmfl.cli.log._PAUSE", 0.01)
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        second = threading.Event()

        def train() -> None:
            second.wait(10)
            for _ in rounds:
                pass

        monkeypatch.setattr("mmfl.system.calls.sleep", lambda _: second.set())
        thread = threading.Thread(target=train)
        thread.start()
        found = events(call, "--follow")
        thread.join()
    assert [(one["event"], one["round"]) for one in found] == [
        *(("start", 0), ("round", 1), ("round", 2), ("round", 3), ("end", 3)),
    ]


def test_a_follower_sees_a_run_go_back(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    mmfl.run(small, "run", resume=True)
    with closing(RunStore.open(Path("run"), checked=False)) as store:
        found = [(one.kind, one.round) for one in read_events(store, 1)]
    assert found == [("resume", 1), ("round", 2), ("round", 3), ("end", 3)]


def test_a_damaged_run_is_shown_and_said_to_be_damaged(call, small):
    mmfl.run(small, "run")
    with closing(sqlite3.connect("run/run.sqlite")) as database, database:
        database.execute("UPDATE round SET samples = samples + 1 WHERE round = 2")
    code, out, err = call("log", "run")
    assert (code, len(out.splitlines())) == (1, 5)
    assert err.startswith("mmfl: the run in 'run' is damaged and should not be trusted: round 2")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_what_is_no_run_is_one_sentence(call, name):
    Path("empty").mkdir()
    code, out, err = call("log", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
