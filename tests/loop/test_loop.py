"""The round loop above engines: allocation, failures, scores, state, and the same bits."""

from __future__ import annotations

import dataclasses
import math
from contextlib import closing
from typing import ClassVar

import numpy as np
import pytest

import mmfl
from mmfl.aggregate import Checks
from mmfl.allocate import FedFair, Uniform
from mmfl.config import component
from mmfl.engines import MockEngine
from mmfl.errors import EngineError, InputError
from mmfl.exchange import ClientFailure, Evaluation, EvaluationFailure, Params, PartialSum
from mmfl.experiment import Constant, Inverse
from mmfl.objectives import LossScore
from support.crowd import LAYOUT, TASKS, experiment, mock, play, step


def test_an_engine_serves_experiments_that_differ_in_allocation_but_no_others():
    engine = mock()
    other = dataclasses.replace(engine.experiment, allocator=Everything(), rounds=1)
    [(_, record)] = list(mmfl.rounds(other, engine=engine))
    assert record.clients == {"a": 0, "b": 0, "c": 12}
    for changes in ({"seed": 5}, {"score_split": "test"}, {"checks": Checks(max_norm=5.0)}):
        with pytest.raises(InputError, match=r"another experiment: (seed|val|check)"):
            list(mmfl.rounds(dataclasses.replace(other, **changes), engine=engine))


def test_an_engine_serves_two_experiments_by_turns(small):
    other = dataclasses.replace(small, seed=7)
    alone = [state.fingerprint for state, _ in mmfl.rounds(small)]
    with closing(small.engine.open(small, data_dir=None)) as engine:
        mine, theirs = (iter(mmfl.rounds(e, engine=engine)) for e in (small, other))
        shared = []
        for state, _ in mine:
            shared.append(state.fingerprint)
            next(theirs)
    assert shared == alone


def test_every_active_client_has_one_turn_and_updates_are_applied():
    for state, record in play(mock()):
        assert record.active == len(record.assignments) == 12
        assert sum(record.clients.values()) == 12
        assert record.samples == 60
        for task in TASKS:
            assert state.params[task].flat.tolist() == [state.versions[task]] * 2


def test_only_a_share_of_the_clients_is_active_and_it_changes():
    clients = dataclasses.replace(experiment().clients, active=0.5)
    seen = [
        set(r.assignments.clients.tolist()) for _, r in play(mock(changes={"clients": clients}))
    ]
    assert all(len(active) == 6 for active in seen)
    assert len(set(map(frozenset, seen))) > 1


def test_each_client_is_active_at_its_own_rate():
    rates = (1.0, 0.0, *[0.5] * 10)
    clients = dataclasses.replace(experiment().clients, active=rates)
    records = [r for _, r in play(mock(changes={"clients": clients, "rounds": 60}))]
    turns = np.bincount(np.concatenate([r.assignments.clients for r in records]), minlength=12)
    assert turns[0] == 60
    assert turns[1] == 0
    assert (turns[2:] > 10).all()
    assert (turns[2:] < 50).all()


def test_active_counts_only_clients_that_may_train_something():
    table = np.full((12, 3), 5)
    table[4:] = 0
    clients = dataclasses.replace(experiment().clients, active=0.5)
    for _, record in play(mock(table=table, changes={"clients": clients})):
        assert record.active == 2
        assert record.assignments.clients.max() < 4


def test_nobody_who_holds_data_or_nobody_active_is_one_sentence():
    with pytest.raises(InputError, match="no client holds data for any task"):
        play(mock(table=np.zeros((12, 3), int)))
    clients = dataclasses.replace(experiment().clients, active=0.01)
    with pytest.raises(
        InputError, match=r"clients.active = 0.01 of 12 clients .* no client active"
    ):
        play(mock(changes={"clients": clients}))


def test_a_client_never_trains_what_it_holds_no_data_for():
    table = np.random.default_rng(0).integers(0, 2, (12, 3)) * 5
    for _, record in play(mock(table=table)):
        for client, task, _ in record.assignments:
            assert table[client, task] > 0


@component
class Everything:
    """An allocator that breaks a rule."""

    how: str = "ineligible"

    def allocate(self, view, state, *, rng):
        return [(client, 2, 1.0) for client in view.clients.tolist()], state


def test_an_allocator_of_ones_own_may_return_a_list_of_triples():
    for state, record in play(mock(changes={"allocator": Everything()})):
        assert record.clients == {"a": 0, "b": 0, "c": 12}
        assert state.params["a"].flat.tolist() == [0, 0]


def test_an_allocator_that_breaks_a_rule_is_named_with_the_rule():
    table = np.full((12, 3), 5)
    table[3, 2] = 0
    engine = mock(table=table, changes={"allocator": Everything()})
    with pytest.raises(
        EngineError, match=r"Everything.* client 3 was given task 'c', which it may"
    ):
        play(engine)


class Trap(dict):
    """A reply that raises when it is looked at."""

    def __iter__(self):
        raise RuntimeError("boom")


@component
class FirstOnly:
    """An aggregator that reads one update and leaves the others."""

    mergeable: ClassVar[bool] = False

    def aggregate(self, params, updates, difficulty, state):
        first = next(iter(updates), None)
        return params if first is None else Params(LAYOUT, params.flat + first.delta.flat), state


def test_what_an_aggregator_leaves_unread_is_counted_all_the_same():
    for _, record in play(mock(changes={"aggregator": FirstOnly()})):
        assert sum(record.clients.values()) == 12
        assert record.samples == 60


def test_a_sum_is_used_only_with_the_address_that_was_asked_for():
    def turn(job, params):
        if job.address.client != 3:
            return step(job, params)
        stale = job.address._replace(round=99)
        return dataclasses.replace(step(job, params), address=stale, delta=None)

    for _, record in play(mock(turn, merges=True)):
        assert [(f.address.client, f.reason) for f in record.failures] == [(3, "address")]
        assert sum(record.clients.values()) == 11


def test_a_state_of_another_experiment_is_refused_but_more_rounds_are_fine():
    engine = mock()
    state, _ = play(engine)[-1]
    longer = dataclasses.replace(engine.experiment, rounds=6)
    assert [r.round for _, r in mmfl.rounds(longer, engine=engine, state=state)] == [5, 6]
    other = dataclasses.replace(longer, allocator=Uniform())
    with pytest.raises(InputError, match="belongs to another experiment"):
        list(mmfl.rounds(other, engine=engine, state=state))


def test_bad_updates_cost_a_turn_and_never_the_run():
    def turn(job, params):
        if job.address.client == 0:
            return ClientFailure(job.address, "raised", "ValueError: no")
        bad = {1: {"examples": 99}, 2: {"delta": {}}, 3: {"loss_after": math.nan}}
        bad[4] = {"address": job.address._replace(task="elsewhere")}
        bad[5] = {"samples": "many"}
        bad[6] = {"delta": None, "partial": PartialSum(np.full(2, np.nan), 5)}
        bad[7] = {"delta": Trap()}
        if job.address.client == 8:
            return None
        if job.address.client == 9:
            return ClientFailure(job.address._replace(task="elsewhere"), "raised")
        if job.address.client == 10:
            bad[10] = {"partial": PartialSum(np.full(2, np.nan), 5)}
        return dataclasses.replace(step(job, params), **bad.get(job.address.client, {}))

    for state, record in play(mock(turn)):
        reasons = {f.address.client: f.reason for f in record.failures}
        assert reasons == {
            0: "raised", 1: "examples", 2: "names", 3: "loss", 4: "address", 5: "samples",
            6: "malformed", 7: "malformed", 8: "malformed", 9: "raised",
        }  # fmt: skip
        assert {f.address.task for f in record.failures} <= set(TASKS)
        assert sum(record.clients.values()) == 2
        assert all(np.isfinite(p.flat).all() for p in state.params.values())


def test_a_task_without_an_accepted_update_keeps_model_version_and_score():
    def turn(job, params):
        if job.address.task == "b":
            return ClientFailure(job.address, "raised")
        return step(job, params)

    asked = []

    def test(task, params, client):
        asked.append(task)
        return Evaluation(task, 10, 1.0, 5.0)

    final, _ = play(mock(turn, test=test))[-1]
    assert final.versions["b"] == 0
    assert final.params["b"].flat.tolist() == [0, 0]
    assert asked.count("b") == 2, "once for its first score, once for its first test result"


def test_the_first_round_is_uniform_and_later_ones_follow_difficulty():
    def test(task, params, client):
        return Evaluation(task, 100, 1.0, {"a": 100, "b": 100, "c": 0}[task])

    rounds = play(mock(test=test, table=np.full((300, 3), 5)))
    first, second = rounds[0][1], rounds[1][1]
    assert set(first.assignments.probabilities) == {1 / 3}
    assert min(first.clients.values()) > 50
    assert second.clients == {"a": 0, "b": 0, "c": 300}


def test_the_clients_score_by_the_size_weighted_mean():
    table = np.full((12, 3), 5)
    table[:, 0] = np.arange(12)

    def test(task, params, client):
        if client is None:
            return Evaluation(task, 10, 1.0, 0.0)
        size = int(table[client, TASKS.index(task)])
        return Evaluation(task, size, 1.0, float(client > 9) * size, client)

    engine = mock(test=test, table=table, changes={"score_source": "clients"})
    _, record = play(engine)[-1]
    assert record.difficulty["a"] == pytest.approx(1 - (10 + 11) / 66)
    assert record.metric["a"] == 0.0, "the test split stays the server's"


def test_a_client_cannot_falsify_a_score():
    lies = {
        0: Evaluation("a", 10**15, 1.0, 0.0, 0),
        1: Evaluation("a", -5, math.nan, 0.0, 1),
        2: Evaluation("a", 5, 1.0, 10**6, 2),
        3: EvaluationFailure("a", 3, "raised", "ValueError: no"),
        4: Evaluation("a", 5, 1.0, 0.0, 99),
    }

    def test(task, params, client):
        if task == "a" and client in lies:
            return lies[client]
        return Evaluation(task, 5, 1.0, 4.0, client)

    engine = mock(test=test, changes={"score_source": "clients", "rounds": 1})
    [(_, record)] = play(engine)
    assert record.difficulty == pytest.approx({"a": 0.2, "b": 0.2, "c": 0.2})
    assert {(f.address.client, f.reason) for f in record.failures} == {
        (0, "evaluation"), (1, "evaluation"), (2, "evaluation"), (3, "raised"), (4, "evaluation"),
    }  # fmt: skip


def test_only_some_clients_are_asked_for_a_score_if_so_set():
    asked = []

    def test(task, params, client):
        asked.append((task, client))
        return Evaluation(task, 1, 1.0, 1.0, client)

    changes = {"score_source": "clients", "score_clients": 4, "rounds": 1}
    play(mock(test=test, changes=changes))
    judges = [client for task, client in asked if task == "a" and client is not None]
    assert len(set(judges)) == len(judges) == 4


def test_a_score_that_is_not_finite_counts_as_the_worst_known():
    calls = {"a": 0}

    def test(task, params, client):
        calls["a"] += task == "a"
        loss = math.nan if task == "a" and calls["a"] > 2 else {"a": 1, "b": 2, "c": 3}[task]
        return Evaluation(task, 1, loss, 0.0)

    _, record = play(mock(test=test, changes={"score": LossScore()}))[-1]
    assert record.difficulty == {"a": 3.0, "b": 2.0, "c": 3.0}


def test_the_test_split_is_measured_when_it_is_due_and_in_the_end():
    every = dataclasses.replace(experiment().evaluate, every=3)
    fresh = [r.fresh for _, r in play(mock(changes={"evaluate": every}))]
    assert fresh == [False, False, True, True]


def test_the_test_split_as_score_is_measured_once():
    splits = []

    class Noting(MockEngine):
        def evaluate(self, params, split, clients=None):
            splits.append(split)
            return super().evaluate(params, split, clients)

    plain = mock(changes={"score_split": "test", "rounds": 2})
    engine = Noting(plain.experiment, plain.federation, plain.first, plain.turn)
    records = [record for _, record in play(engine)]
    assert splits == ["test", "test"]
    assert all(record.fresh for record in records)


def test_going_on_from_any_state_ends_with_the_same_fingerprint(small):
    states = [state for state, _ in mmfl.rounds(small)]
    for state in states[:-1]:
        *_, (final, _) = mmfl.rounds(small, state=state)
        assert final.fingerprint == states[-1].fingerprint


def test_alpha_one_has_exactly_the_fingerprint_of_uniform(small):
    prints = set()
    for sampling in ("independent", "stratified"):
        for floor in (0, 1):
            pair = [FedFair(1.0, sampling, floor), Uniform(sampling, floor)]
            finals = [list(mmfl.rounds(dataclasses.replace(small, allocator=a)))[-1] for a in pair]
            assert finals[0][0].fingerprint == finals[1][0].fingerprint
            prints.add(finals[0][0].fingerprint)
    assert len(prints) > 1


def test_a_state_that_was_yielded_cannot_be_written_to(small):
    for state, _ in mmfl.rounds(small):
        for weights in state.params.values():
            with pytest.raises(ValueError, match="read-only"):
                weights.flat[0] = 7.0
            with pytest.raises(ValueError, match="read-only"):
                next(iter(weights.values())).flat[0] = 7.0


def test_the_order_of_the_tasks_in_the_file_does_not_matter(small):
    backwards = dataclasses.replace(small, tasks=small.tasks[::-1])
    one, other = ([s for s, _ in mmfl.rounds(e)][-1] for e in (small, backwards))
    assert one.fingerprint == other.fingerprint


def test_another_seed_gives_another_fingerprint(small):
    one, other = (
        [s for s, _ in mmfl.rounds(dataclasses.replace(small, seed=seed))][-1] for seed in (1, 2)
    )
    assert one.fingerprint != other.fingerprint


def test_a_diverging_client_is_recorded_and_the_model_stays_finite(small):
    wild = dataclasses.replace(
        small, local=dataclasses.replace(small.local, lr=Constant(1e30), epochs=3)
    )
    records = [(s, r) for s, r in mmfl.rounds(wild)]
    reasons = {f.reason for _, r in records for f in r.failures}
    assert reasons <= {"loss", "not finite", "norm"}
    assert reasons
    assert all(np.isfinite(p.flat).all() for s, _ in records for p in s.params.values())


def test_the_inverse_schedule_counts_the_rounds_in_which_the_task_trained():
    rates = {}

    def turn(job, params):
        rates.setdefault(job.address.task, {})[job.address.model_version] = job.work.lr
        return step(job, params)

    local = dataclasses.replace(experiment().local, lr=Inverse(mu=0.5, gamma=8.0))
    play(mock(turn, changes={"local": local}))
    for by_version in rates.values():
        assert by_version == {v: 1 / (0.5 * (v + 8)) for v in range(len(by_version))}


@component
class Novices:
    """An allocator that remembers: each client's next task is the one it had fewest turns at."""

    def allocate(self, view, state, *, rng):
        assert (np.isnan(view.loss) == (view.counts == 0)).all()
        assert (np.isnan(view.norm) == (view.counts == 0)).all()
        assert set(view.loss[view.counts > 0].tolist()) <= {1.0}
        assert set(view.norm[view.counts > 0].tolist()) <= {math.sqrt(2)}
        tasks = view.counts.argmin(axis=1)
        return [(c, s, 1.0) for c, s in zip(view.clients, tasks, strict=True)], state


def test_an_allocator_knows_the_turns_that_a_client_had():
    clients = dataclasses.replace(experiment().clients, active=0.5)
    rounds = play(mock(changes={"allocator": Novices(), "clients": clients, "rounds": 9}))
    final, _ = rounds[-1]
    assert final.clients.counts.sum() == 9 * 6
    assert (np.ptp(final.clients.counts, axis=1) <= 1).all()
