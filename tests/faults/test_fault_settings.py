"""Every mistake in ``[faults]`` and ``[quarantine]`` is one sentence."""

from __future__ import annotations

import pytest

from support.helpers import LEAST, SECOND_TASK, made, refused

CLIENTS = "faults.clients=[{%s}]"


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("faults.dropout=1.5", ["faults.dropout must be a probability in [0, 1]", "got 1.5"]),
        ("faults.dropout=-1", ["faults.dropout", "got -1"]),
        ("faults.dropout=true", ["faults.dropout", "got True"]),
        ("faults.dropout=nan", ["faults.dropout", "got nan"]),
        ("faults.dropout=[]", ["faults.dropout", "got []"]),
        ("faults.dropout=[0.5,2]", ["faults.dropout", "got [0.5, 2]"]),
        ("faults.dropout=[0.5,0.5]", ["faults.dropout", "one probability per client (4)", "got 2"]),
        ("faults.deadline=5.0", ["faults: deadline needs a speed"]),
        ("faults.jitter=0.5", ["faults: jitter needs a speed"]),
        ("faults={deadline=0.0,speed=1.0}", ["faults.deadline", "greater than 0", "got 0"]),
        ("faults={deadline=inf,speed=1.0}", ["faults.deadline", "finite", "got inf"]),
        ("faults={speed=1.0,jitter=-1.0}", ["faults.jitter", "got -1"]),
        ("faults.speed=0", ["faults.speed", "greater than 0", "got 0"]),
        ("faults.speed=fast", ["faults.speed", "number", "got 'fast'"]),
        ("faults.speed=[1.0,2.0]", ["faults.speed", "one rate per client (4)", "got 2"]),
        ("faults.speed=[1.0,2.0,3.0,0.0]", ["faults.speed", "greater than 0", "got 0"]),
        ("faults.speed={kind='lognormal',median=1.0}", ["faults.speed.sigma", "is missing"]),
        ("faults.speed={kind='uniform',low=3.0,high=1.0}", ["faults.speed", "at most high"]),
        ("faults.speed={kind='normal'}", ["faults.speed.kind", "'normal'", "lognormal"]),
        ("faults.spede=1.0", ["faults.spede is not a known key; did you mean 'speed'?"]),
        ("faults.clients=3", ["faults.clients", "got 3"]),
        (CLIENTS % "share=0.5", ["faults.clients[0].does", "is missing"]),
        (CLIENTS % "does='nan'", ["faults.clients[0]", "either share or ids"]),
        (CLIENTS % "does='nan',share=0.5,ids=[1]", ["faults.clients[0]", "either share or ids"]),
        (CLIENTS % "does='nna',ids=[1]", ["faults.clients[0].does.kind", "did you mean 'nan'?"]),
        (CLIENTS % "does='nan',share=1.5", ["faults.clients[0].share", "got 1.5"]),
        (CLIENTS % "does='nan',share=0.5,rate=-0.1", ["faults.clients[0].rate", "got -0.1"]),
        (CLIENTS % "does='nan',ids=[1,4]", ["faults.clients[0].ids must be below 4, got 4"]),
        (CLIENTS % "does='nan',ids=[-1]", ["faults.clients[0].ids[0]", "got -1"]),
        (CLIENTS % "does='nan',ids=[0.5]", ["faults.clients[0].ids[0]", "got 0.5"]),
        (CLIENTS % "does='nan',ids=2", ["faults.clients[0].ids", "a list", "got 2"]),
        (
            CLIENTS % "does='nan',ids=[1],tasks=['x']",
            ["faults.clients[0].tasks: no task is called 'x'; known: a, b"],
        ),
        (CLIENTS % "does='nan',ids=[1],tasks='b'", ["faults.clients[0].tasks", "got 'b'"]),
        (
            CLIENTS % "does={kind='scaled',factor=0.0},ids=[1]",
            ["faults.clients[0].does.factor", "greater than 0", "got 0"],
        ),
        (
            CLIENTS % "does={kind='false_loss',value=nan},ids=[1]",
            ["faults.clients[0].does.value", "got nan"],
        ),
        (
            CLIENTS % "does={kind='replayed_round',back=0},ids=[1]",
            ["faults.clients[0].does.back", "got 0"],
        ),
        ("quarantine.rounds=3", ["quarantine.strikes is missing"]),
        ("quarantine.strikes=0", ["quarantine.strikes", "got 0"]),
        ("quarantine={strikes=2,rounds=0}", ["quarantine.rounds", "got 0"]),
        ("quarantine={strikes=2,ruonds=3}", ["did you mean 'rounds'?"]),
    ],
)
def test_mistakes_are_one_sentence(change: str, parts: list[str]) -> None:
    message = refused(change, text=LEAST + SECOND_TASK)
    assert [part for part in parts if part not in message] == []


def test_a_replay_of_another_task_needs_another_task() -> None:
    change = CLIENTS % "does='replayed_task',share=1.0"
    assert made(change, text=LEAST + SECOND_TASK).faults is not None
    assert "needs at least two tasks" in refused(change)


@pytest.mark.parametrize(
    "change",
    [
        "faults={}",
        "faults.dropout=0.3",
        "faults.dropout=[0,1,0.5,0.25]",
        "faults.speed=3",
        "faults={speed=[1,2,3,4.5],deadline=2,jitter=0.1}",
        "faults.speed={kind='lognormal',median=2.0,sigma=0.0}",
        CLIENTS % "does='nan',ids=[]",
        CLIENTS % "does={kind='absurd_weight',examples=-5},share=0,tasks=[]",
        CLIENTS % "does={kind='false_loss',value=inf,metric=0.5},share=0.5,rate=0.5,tasks=['a']",
        "quarantine.strikes=3",
        "quarantine={strikes=3,rounds=5}",
    ],
)
def test_what_is_right_survives_being_written_down(change: str) -> None:
    first = made(change)
    again = made(text=first.to_toml())
    assert again == first
    assert again.digest == first.digest
    assert hash(again) == hash(first)


def test_lists_and_tables_can_be_reached_one_by_one() -> None:
    found = made(
        CLIENTS % "does='nan',share=0.5",
        "faults.clients.0.does={kind='scaled',factor=3.0}",
        "faults.clients.0.rate=0.5",
        "quarantine.strikes=2",
    )
    (one,) = found.faults.clients
    assert (one.does.factor, one.share, one.rate) == (3.0, 0.5, 0.5)
