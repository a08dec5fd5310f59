"""The tables of a run as records: complete, the same wherever it ran, and what pandas takes."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.allocate import Assignments
from mmfl.errors import InputError, StoreError
from mmfl.runs import stored_rounds
from mmfl.runs.assignments import pack_turns, unpack_turns
from mmfl.runs.records import RECORDS
from mmfl.runs.verification import verify
from support.helpers import one_line
from support.rewriting import edited, make_older

pd = pytest.importorskip("pandas")

RICH = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 6.0 }
[faults]
dropout = 0.3
[[faults.clients]]
does = "nan"
share = 0.3
"""


@pytest.fixture(scope="module")
def rich(small_toml) -> Experiment:
    return Experiment.from_toml(small_toml + RICH)


def timeless(run: Run) -> list[tuple[object, ...]]:
    return [turn._replace(seconds=turn.seconds is not None) for turn in run.turns()]


def test_turns_say_who_trained_what_with_what_result(rich):
    with stored_rounds(rich, "run") as rounds:
        records = [record for _, record in rounds]
    turns = Run.load("run").turns()
    at = {(turn.round, turn.task, turn.client): turn for turn in turns}
    assert len(at) == len(turns) == sum(len(record.assignments) for record in records)
    assert list(at) == sorted(at, key=lambda key: (key[0], records[0].tasks.index(key[1]), key[2]))
    for record in records:
        for client, task, loss, norm, examples, seconds in record.turns:
            turn = at.pop((record.round, task, client))
            assert turn == (record.round, client, task, True, examples, loss, norm, seconds)
            assert min(examples, loss, norm, seconds) > 0
        failed = {(f.address.task, f.address.client) for f in record.failures}
        left = {key[1:] for key in at if key[0] == record.round}
        assert left == failed != set()
    assert {turn[3:] for turn in at.values()} == {(False, None, None, None, None)}


def test_examples_are_what_the_client_holds(small):
    with mmfl.rounds(small) as rounds:
        next(rounds)
    for turn in mmfl.run(small, "run").turns():
        assert turn.examples == {"dense": 27}.get(turn.task, turn.examples)


@pytest.mark.parametrize("workers", [1, 2])
def test_all_but_the_seconds_is_the_same_with_workers(rich, workers):
    sets = ["engine.kind=local", f"engine.workers={workers}"]
    other = Experiment.from_toml(rich.to_toml(), sets=sets)
    here, there = mmfl.run(rich, "here"), mmfl.run(other, "there")
    assert here.fingerprint == there.fingerprint
    assert timeless(here) == timeless(there)
    assert here.failures() == there.failures()
    assert here.awards() == there.awards()


def test_a_resumed_run_has_the_turns_of_an_uninterrupted_one(rich):
    often = dataclasses.replace(rich, checkpoints=mmfl.experiment.Checkpoints(rounds=2))
    straight = mmfl.run(often, "straight")
    with stored_rounds(often, "broken") as rounds:
        next(rounds)
    resumed = mmfl.run(often, "broken", resume=True)
    assert timeless(resumed) == timeless(straight)
    assert resumed.failures() == straight.failures()


def test_failures_and_awards_are_records(rich):
    run = mmfl.run(rich, "run")
    failures = pd.DataFrame(run.failures())
    assert list(failures) == ["round", "client", "task", "reason", "detail", "turn"]
    assert failures.turn.all()
    assert len(failures) == run.failed
    assert set(failures.reason) == {"dropout", "not finite"}
    awards = pd.DataFrame(run.awards())
    assert list(awards) == ["client", "task", "bid", "participation", "payment", "paid"]
    assert awards.groupby("task").paid.sum().to_dict() == {
        name: task.paid for name, task in run.recruitment.tasks.items()
    }


def test_every_table_goes_into_a_data_frame(rich):
    run = mmfl.run(rich, "run")
    frames = {name: pd.DataFrame(run.table(name)) for name in RECORDS}
    for name, frame in frames.items():
        assert list(frame) == list(RECORDS[name][0]._fields) * (name != "clients")
        assert len(frame) or name == "clients"
    turns, scores = frames["turns"], frames["metrics"]
    accepted = turns[turns.accepted].groupby(["round", "task"]).size()
    assert accepted.to_dict() == {
        (row.round, row.task): row.clients for row in scores.itertuples() if row.clients
    }
    history = pd.DataFrame(run.history)
    for task in run.tasks:
        assert list(history[task]) == list(scores[scores.task == task].metric)
    assert turns.dtypes.astype(str).to_dict() == {
        **{"round": "int64", "client": "int64", "task": str(turns.task.dtype), "accepted": "bool"},
        **{"examples": "float64", "loss": "float64", "norm": "float64", "seconds": "float64"},
    }
    said = one_line(InputError, lambda: run.table("turn"))
    assert said == "a run has no table 'turn'; did you mean 'turns'?"


@pytest.mark.filterwarnings("ignore:the table")
def test_clients_that_the_data_names_keep_their_names():
    frame = pd.DataFrame({"age": range(60), "ill": [0, 1] * 30, "hospital": list("=NES" * 15)})
    data = mmfl.from_frame(frame, target="ill", client="hospital")
    task = mmfl.Task("heart", data=data)
    experiment = Experiment(tasks=[task], clients=5, rounds=2, engine="inline")
    run = mmfl.run(experiment, "run")
    assert run.client_names == {0: "=", 1: "E", 2: "N", 3: "S"}
    turns = pd.DataFrame(run.turns())
    assert set(turns.client.map(run.client_names)) == set("=NES")
    assert run.table("clients") == list(run.client_names.items())
    more = Experiment(tasks=[task], clients=5, rounds=3, engine="inline")
    assert mmfl.run(more, "run", resume=True).client_names == run.client_names


def test_polars_takes_records_too(rich):
    polars = pytest.importorskip("polars")
    run = mmfl.run(rich, "run")
    for name in RECORDS:
        frame = polars.DataFrame(run.table(name))
        assert name == "clients" or frame.columns == list(RECORDS[name][0]._fields)
    assert polars.DataFrame(run.history).columns == list(run.tasks)


def test_a_run_without_failures_or_auction_has_none(small):
    run = mmfl.run(small, "run")
    assert run.failures() == run.awards() == run.table("auction") == run.table("faults") == []
    assert Counter(turn.accepted for turn in run.turns()) == {True: 24}


def test_a_live_run_has_the_turns_so_far(small):
    with stored_rounds(small, "run") as rounds:
        rounds.start()
        assert Run.load("run").turns() == []
        next(rounds)
        assert {turn.round for turn in Run.load("run").turns()} == {1}


@pytest.mark.parametrize("how", [{"digests": True}, {}, {"faults": False}])
def test_older_runs_have_turns_without_results(rich, how):
    before = mmfl.run(rich, "run")
    turns, failures = before.turns(), before.failures()
    make_older("run", **how)
    run = Run.load("run")
    assert run.verifiable == bool(how.get("digests"))
    none = dict.fromkeys(("examples", "loss", "norm", "seconds"))
    assert run.turns() == [turn._replace(**none) for turn in turns]
    assert run.failures() == failures
    assert run.awards() == before.awards()
    assert not verify("run").damaged
    assert "another version of mmfl" in one_line(
        StoreError, lambda: mmfl.run(rich, "run", resume=True)
    )


def test_turns_that_do_not_fit_the_round_are_found(rich):
    run = mmfl.run(rich, "run")
    with closing(sqlite3.connect("run/run.sqlite")) as database:
        ((whole,),) = database.execute("SELECT turns FROM round WHERE round = 2").fetchall()
    first = whole[:1]
    for blob in (
        b"",
        whole[:-1],
        whole + b"\0",
        b"\2" + whole[1:],
        bytes([1 - first[0]]) + whole[1:],
    ):
        with edited("run") as database:  # by somebody who computes the digests, too
            database.execute("UPDATE round SET turns = ? WHERE round = 2", (blob,))
        (part,) = [part for part in verify("run").parts if part.name == "run.sqlite"]
        assert part.detail == "the turns of round 2 do not match its assignment"
        if len(blob) != len(whole) or blob[0] == 2:
            assert "turns of a round" in one_line(StoreError, run.turns)


def test_a_damaged_run_is_refused_unless_it_was_loaded_as_one(rich):
    run = mmfl.run(rich, "run")
    with closing(sqlite3.connect("run/run.sqlite")) as database, database:
        database.execute("UPDATE failure SET client = client + 1 WHERE round = 3")
    assert "round 3 does not match its hash" in one_line(StoreError, run.turns)
    shown = Run.load("run", damaged=True)
    assert len(shown.turns()) > 0


def test_a_run_that_is_gone_is_one_sentence(small):
    run = mmfl.run(small, "run")
    Path("run").rename("moved")
    assert "'run'" in one_line(StoreError, run.turns)
    assert Run.load("moved").turns()


def test_turns_survive_the_blob_in_any_order():
    rng = np.random.default_rng(0)
    clients, tasks = rng.permutation(40) * 10**12, np.arange(40) % 3
    assignments = Assignments(clients, tasks, np.ones(40))
    for count in (40, 25, 1, 0):
        accepted = [
            (int(clients[n]), "abc"[tasks[n]], n / 3, n / 7, n + 1, n * 1e-4)
            for n in sorted(rng.permutation(40)[:count], key=lambda n: (tasks[n], clients[n]))
        ]
        found = unpack_turns(pack_turns(assignments, "abc", accepted), assignments)
        assert found.accepted.sum() == count
        for client, task, *rest in accepted:
            (row,) = np.flatnonzero((clients == client) & (tasks == "abc".index(task)))
            loss, norm, examples, seconds = rest
            assert [column[row] for column in found] == [True, examples, loss, norm, seconds]
