"""What an engine may deliver, and what becomes of it."""

from __future__ import annotations

import dataclasses

import pytest

from mmfl.engines import MockEngine
from mmfl.errors import EngineError
from mmfl.exchange import ClientFailure
from mmfl.faults import Quarantine
from support.crowd import mock, play, step


def records(engine):
    return [record for _, record in play(engine)]


def test_engines_that_give_too_few_or_too_many_results_are_at_fault():
    class Wrong(MockEngine):
        def train(self, jobs, params, *, merge=False):
            found = list(super().train(jobs, params, merge=merge))
            return iter(found[:-1] if self.workers == 2 else [*found, found[0]])

    for workers, sentence in (
        (2, "returned 11 results for 12 jobs"),
        (3, r"returned more results than it had jobs \(12\)"),
    ):
        plain = mock(workers=workers)
        engine = Wrong(*(getattr(plain, f.name) for f in dataclasses.fields(plain)))
        with pytest.raises(EngineError, match=sentence):
            play(engine)


def test_what_an_engine_was_sent_beyond_the_answer_is_recorded_and_costs_nothing():
    class Twice(MockEngine):
        def train(self, jobs, params, *, merge=False):
            for found in super().train(jobs, params, merge=merge):
                yield found
                if found.address.client in (2, 5):
                    yield ClientFailure(found.address, "duplicate", "sent twice", turn=False)

    plain = mock(changes={"quarantine": Quarantine(strikes=1)})
    engine = Twice(*(getattr(plain, f.name) for f in dataclasses.fields(plain)))
    calm = play(mock())
    for (state, record), (expected, _) in zip(play(engine), calm, strict=True):
        assert sorted(f.address.client for f in record.failures) == [2, 5]
        assert sum(record.clients.values()) == 12
        assert state.fingerprint == expected.fingerprint
        assert state.offenders == {}


def test_a_client_that_answers_with_anothers_address_loses_its_own_turn_and_no_other():
    def turn(job, params):
        found = step(job, params)
        if job.address.client in (0, 11):  # a job that was answered before, or will be later
            other = job.address._replace(client=5)
            return dataclasses.replace(found, address=other)
        return found

    for record in records(mock(turn)):
        assert sorted((f.address.client, f.reason) for f in record.failures) == [
            (0, "address"),
            (11, "address"),
        ]
        assert sum(record.clients.values()) == 10
