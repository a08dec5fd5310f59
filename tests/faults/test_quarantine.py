"""Who is left out, when, and for how long."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl.aggregate import REFUSALS, Checks, check_update
from mmfl.allocate import ALLOCATORS
from mmfl.exchange import Address, ClientFailure, Evaluation
from mmfl.faults import Faults, Misbehaving, Quarantine
from mmfl.faults.quarantine import FOR_EVER
from mmfl.loop import Population
from support.crowd import TASKS, Crowd, experiment, mock, play, step


def failure(client, reason="norm", **more) -> ClientFailure:
    return ClientFailure(Address("run", 1, "a", client, 0), reason, **more)


def nan(*ids, **more):
    return Faults(clients=(Misbehaving(does="nan", ids=ids, **more),))


def turns_of(engine):
    """From round to the ids of its active clients."""
    return {r.round: set(r.assignments.clients.tolist()) for _, r in play(engine)}


# The rule


def test_strikes_in_a_row_lead_to_quarantine_and_an_accepted_update_wipes_them_out():
    rule = Quarantine(strikes=3, rounds=2)
    offenders = rule.after(1, {}, [1], [failure(0)])
    assert offenders == {0: (1, 0)}
    offenders = rule.after(2, offenders, [1], [failure(0)])
    assert offenders == {0: (2, 0)}
    assert rule.after(3, offenders, [0, 1], []) == {}
    assert rule.after(3, offenders, [1], []) == {0: (2, 0)}, "a round without a turn is no news"
    offenders = rule.after(3, offenders, [1], [failure(0)])
    assert offenders == {0: (0, 5)}
    assert [rule.find_excluded(t, offenders).tolist() for t in (4, 5, 6)] == [[0], [0], []]
    assert rule.after(5, rule.after(4, offenders, [], []), [], []) == {0: (0, 5)}
    assert rule.after(6, offenders, [], []) == {}
    assert rule.after(6, offenders, [], [failure(0)]) == {0: (1, 0)}


def test_without_a_number_of_rounds_it_is_for_ever():
    offenders = Quarantine(strikes=1).after(9, {}, [], [failure(4)])
    assert offenders == {4: (0, FOR_EVER)}
    assert Quarantine.find_excluded(10**9, offenders).tolist() == [4]


@pytest.mark.parametrize("reason", ["dropout", "late", "worker", "raised", "duplicate"])
def test_what_the_checks_did_not_refuse_is_no_strike(reason):
    assert Quarantine(strikes=1).after(1, {}, [], [failure(0, reason)]) == {}


def test_evaluations_are_no_strikes():
    assert Quarantine(strikes=1).after(1, {}, [], [failure(0, "loss", turn=False)]) == {}


def test_every_reason_of_the_checks_is_a_strike():
    good = step(dataclasses.make_dataclass("Job", ["address"])(failure(0).address), None)
    layout, reasons = mock().first["a"].layout, set()
    spoiled = (
        None,
        dataclasses.replace(good, address=good.address._replace(round=7)),
        dataclasses.replace(good, examples=6),
        dataclasses.replace(good, samples=-1),
        dataclasses.replace(good, seconds=float("nan")),
        dataclasses.replace(good, loss_after=float("nan")),
        dataclasses.replace(good, delta={}),
        dataclasses.replace(good, delta={"w": np.ones(2)}),
        dataclasses.replace(good, delta={"w": np.ones(3, np.float32)}),
        dataclasses.replace(good, delta={"w": np.full(2, np.inf, np.float32)}),
        dataclasses.replace(good, delta={"w": np.full(2, 9, np.float32)}),
    )
    for update in spoiled:
        reasons.add(check_update(update, good.address, layout, 5, Checks(max_norm=5.0)).reason)
    assert reasons == REFUSALS


EVENTS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 5)), st.lists(st.integers(0, 5), max_size=6), st.integers(0, 1)
    ),
    max_size=12,
)


@given(EVENTS, st.integers(1, 3), st.one_of(st.none(), st.integers(1, 4)))
def test_the_state_is_small_deterministic_and_never_changed(events, strikes, rounds):
    rule, offenders = Quarantine(strikes=strikes, rounds=rounds), {}
    for t, (accepted, refused, real) in enumerate(events, start=1):
        reason = "norm" if real else "late"
        before = dict(offenders)
        found = rule.after(t, offenders, accepted, [failure(k, reason) for k in refused])
        again = rule.after(t, before, sorted(accepted), [failure(k, reason) for k in refused[::-1]])
        assert offenders == before
        assert found == again
        assert list(found) == sorted(found)
        for count, until in found.values():
            assert 0 <= count < strikes
            assert count > 0 or until >= t
            assert type(count) is int
            assert type(until) is int
        offenders = found


# In a run


def test_an_offender_is_left_out_for_so_many_rounds_and_comes_back():
    changes = {"faults": nan(3), "quarantine": Quarantine(strikes=2, rounds=3), "rounds": 12}
    active = turns_of(mock(changes=changes))
    assert [t for t in active if 3 in active[t]] == [1, 2, 6, 7, 11, 12]
    assert all(active[t] >= set(range(12)) - {3} for t in active)


def test_dropouts_and_stragglers_are_not_left_out():
    late = Faults(dropout=0.5, speed=(0.1, *[100.0] * 11), deadline=5.0)
    engine = mock(changes={"faults": late, "quarantine": Quarantine(strikes=1), "rounds": 6})
    assert all(active == set(range(12)) for active in turns_of(engine).values())


def test_a_persistent_offender_moves_the_model_no_more():
    flip = Misbehaving(does={"kind": "scaled", "factor": 1e9}, ids=[0])  # stopped by its norm
    changes = {"faults": Faults(clients=(flip,)), "quarantine": Quarantine(strikes=2), "rounds": 6}
    rounds = play(mock(changes=changes))
    assert [len(record.faults) for _, record in rounds] == [1, 1, 0, 0, 0, 0]
    assert [sum(record.clients.values()) for _, record in rounds] == [11] * 6


@pytest.mark.parametrize("rule", sorted(ALLOCATORS.table))
def test_with_everybody_in_quarantine_the_run_goes_on_with_nobody(rule):
    changes = {
        "allocator": ALLOCATORS.parse(rule),
        "faults": nan(*range(12)),
        "quarantine": Quarantine(strikes=1, rounds=2),
        "rounds": 5,
    }
    rounds = play(mock(changes=changes))
    assert [record.active for _, record in rounds] == [12, 0, 0, 12, 0]
    assert rounds[-1][0].versions == dict.fromkeys(TASKS, 0)


def test_those_in_quarantine_do_not_judge():
    asked = []

    def test(task, params, client):
        if client is not None:
            asked[-1].add(client)
        return Evaluation(task, 5, 1.0, 4.0, client)

    changes = {
        "faults": nan(3, 8, tasks=["a"]),
        "quarantine": Quarantine(strikes=1, rounds=2),
        "score_source": "clients",
        "rounds": 8,
    }
    engine = mock(test=test, changes=changes)
    asked.append(set())
    away = []
    for state, record in mmfl.rounds(engine.experiment, engine=engine):
        gone = {k for k, (_, until) in state.offenders.items() if until >= record.round}
        away.append(gone)
        assert asked[-1] == (set(range(12)) - gone if any(record.clients.values()) else set())
        asked.append(set())
    assert any(away)


# The draw


def population(count, quarantine, table=None, **changes) -> Population:
    made = experiment(quarantine=quarantine, **changes)
    made = dataclasses.replace(made, clients=dataclasses.replace(made.clients, count=count))
    return Population.of(Crowd(np.full((count, 3), 5) if table is None else table), made)


@given(st.data())
def test_the_draw_leaves_out_who_is_away_and_is_even_over_the_others(data):
    n = data.draw(st.integers(2, 30))
    holds = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    holds[0] = True
    away = data.draw(st.sets(st.sampled_from(range(n))))
    rate = data.draw(st.sampled_from([1.0, 0.5, 0.9]))
    if not round(rate * holds.sum()):
        return
    people = population(n, Quarantine(strikes=1), holds[:, None] * np.full((n, 3), 5))
    people = dataclasses.replace(people, rates=(rate,))
    offenders = dict.fromkeys(sorted(away), (0, 9))
    active = people.active(5, offenders)
    able = [k for k in range(n) if holds[k] and k not in away]
    assert len(active) == round(rate * len(able))
    assert set(active.tolist()) <= set(able)
    assert (np.diff(active) > 0).all()
    assert people.evaluators(5, "a", offenders).tolist() == able
    assert np.array_equal(people.active(5, {}), people.active(5))
    assert np.array_equal(people.active(10, offenders), people.active(10)), "it is over by then"


def test_each_of_the_others_is_drawn_as_often():
    people = population(10, Quarantine(strikes=1))
    people = dataclasses.replace(people, rates=(0.4,))
    offenders = {2: (0, FOR_EVER), 3: (0, FOR_EVER), 9: (0, FOR_EVER)}
    drawn = np.bincount(
        np.concatenate([people.active(t, offenders) for t in range(1, 701)]), minlength=10
    )
    assert drawn[[2, 3, 9]].tolist() == [0, 0, 0]
    assert (np.abs(drawn[[0, 1, 4, 5, 6, 7, 8]] - 300) < 60).all()  # round(.4 x 7) = 3 of 7


def test_with_rates_per_client_those_away_are_left_out_too():
    clients = mmfl.experiment.Clients(12, tuple([1.0] * 12))
    engine = mock(
        changes={"clients": clients, "faults": nan(1), "quarantine": Quarantine(strikes=1)}
    )
    active = turns_of(engine)
    assert 1 in active[1]
    assert all(active[t] == set(range(12)) - {1} for t in (2, 3, 4))


@dataclasses.dataclass(frozen=True)
class Sparse(Crowd):
    """Clients whose ids are not 0, 1, 2, ..."""

    @property
    def clients(self):
        return [10 * k + 7 for k in range(len(self.table))]

    def sizes(self, clients):
        return self.table[clients // 10]


def test_those_away_are_found_by_their_ids_not_by_their_places():
    plain = mock(changes={"faults": None, "quarantine": Quarantine(strikes=1), "rounds": 3})
    table = np.full((12, 3), 5)
    table[4] = 0

    def turn(job, params):
        found = step(job, params)
        bad = job.address.client in (17, 57)
        return dataclasses.replace(found, examples=6) if bad else found

    engine = dataclasses.replace(plain, federation=Sparse(table), turn=turn)
    active = turns_of(engine)
    everybody = {10 * k + 7 for k in range(12) if k != 4}
    assert active == {1: everybody, 2: everybody - {17, 57}, 3: everybody - {17, 57}}
