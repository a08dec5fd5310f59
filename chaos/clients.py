"""One bad client of ten: what do mmfl's checks do with each bad reply, and what does Flower do?

    python -m chaos.clients --out chaos/results/clients.json

The bad replies, their names and the size of the problem are those of chaos/peers/flower_faults.py:
ten clients, four rounds, client 0 gives the bad reply in every round. The replies are injected
where an engine delivers them, before the server does anything with them. Writes a table (Markdown,
next to the JSON) with Flower's behaviour from chaos/results/flower.json.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mmfl
from benchmarks.harness import HOUSE, arguments, machine, save
from mmfl import Experiment
from mmfl.aggregate import AGGREGATORS
from mmfl.engines import InlineEngine
from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Job,
    Params,
)
from mmfl.faults import Faults, Misbehaving
from mmfl.faults.replays import Duplicate

__all__ = ["KINDS", "try_kind"]

BAD = 0
Reply = Callable[[ClientUpdate, ClientUpdate], Any]
"""Takes an honest update and that of the first round; returns what arrives instead."""

EXPERIMENT = """
rounds = 4
score_source = "clients"
[clients]
count = 10
[local]
epochs = 2
batch_size = 20
lr = 0.1
momentum = 0.0
[engine]
kind = "inline"
[[tasks]]
name = "clouds"
model = { kind = "mlp", hidden = [] }
partition = { kind = "iid", points = 60 }
[tasks.dataset]
kind = "synthetic"
classes = 10
shape = [20]
train = 600
test = 2000
noise = 1.5
"""


def tensors(update: ClientUpdate) -> dict[str, Any]:
    """The update's tensors by name, as copies that may be changed."""
    assert update.delta is not None
    return {name: tensor.copy() for name, tensor in update.delta.items()}


def change_tensors(change: Callable[[dict[str, Any]], Any]) -> Reply:
    """A bad reply: the tensors are changed in place, or replaced."""

    def reply(update: ClientUpdate, first: ClientUpdate) -> ClientUpdate:
        found = tensors(update)
        other = change(found)
        return dataclasses.replace(update, delta=found if other is None else other)

    return reply


def each(rule: Callable[[Any], Any]) -> Reply:
    """A bad reply: every tensor is changed."""
    return change_tensors(lambda found: {name: rule(tensor) for name, tensor in found.items()})


def one(rule: Callable[[Any], Any]) -> Reply:
    """A bad reply: the largest tensor is changed."""

    def change(found: dict[str, Any]) -> None:
        name = max(found, key=lambda name: found[name].size)
        found[name] = rule(found[name])

    return change_tensors(change)


def claims(**fields: Any) -> Reply:
    """A bad reply: the update is good, but what it claims about itself is false."""
    return lambda update, first: dataclasses.replace(update, **fields)


def spoil(value: float) -> Reply:
    """A bad reply: one value is not a finite number."""

    def rule(tensor: Any) -> Any:
        tensor.reshape(-1)[0] = value
        return tensor

    return one(rule)


def replay(update: ClientUpdate, first: ClientUpdate) -> ClientUpdate:
    """The first round's content under the current address: it looks like any small update."""
    return dataclasses.replace(update, delta=tensors(first))


def flipped_and_heavy(update: ClientUpdate, first: ClientUpdate) -> ClientUpdate:
    turned = each(np.negative)(update, first)
    assert isinstance(turned, ClientUpdate)
    return dataclasses.replace(turned, examples=10**12)


KINDS: dict[str, Reply] = {
    "none": lambda update, first: update,
    "dropout": lambda update, first: ClientFailure(update.address, "raised", "ValueError: no"),
    "never answers": lambda update, first: ClientFailure(update.address, "timeout", "no answer"),
    "too slow": lambda update, first: ClientFailure(update.address, "timeout", "no answer yet"),
    "NaN update": spoil(math.nan),
    "Inf update": spoil(math.inf),
    "wrong shape": one(lambda tensor: np.vstack([tensor, tensor[:1]])),
    "wrong shape (transposed)": one(lambda tensor: np.ascontiguousarray(tensor.T)),
    "wrong shape (one row, arrives last)": one(lambda tensor: tensor[:1]),
    "wrong shape (one row, arrives first)": one(lambda tensor: tensor[:1]),
    "missing tensor": change_tensors(lambda found: dict([*found.items()][1:])),
    "extra tensor": change_tensors(lambda found: {**found, "more": np.zeros(3, np.float32)}),
    "absurd weight (10**12)": claims(examples=10**12),
    "absurd weight (10**12, sign-flipped)": flipped_and_heavy,
    "absurd weight (0)": claims(examples=0),
    "absurd weight (negative)": claims(examples=-60),
    "absurd weight (negative, the sum is 0)": claims(examples=-540),
    "absurd weight (NaN)": claims(examples=math.nan),
    "absurd weight (str)": claims(examples="60"),
    "absurd weight (list)": claims(examples=[60]),
    "absurd weight (missing)": claims(examples=None),
    "scaled update": each(lambda tensor: tensor * np.float32(1e6)),
    "sign-flipped": each(np.negative),
    "replay": replay,
    "replay (addressed to the earlier message)": lambda update, first: (
        first if first.address != update.address else update
    ),
    "reply for another model": change_tensors(
        lambda found: {"conv.weight": np.ones(9, np.float32)}
    ),
    "false reported loss (NaN)": claims(loss_before=math.nan, loss_after=math.nan),
    "false reported loss (1e9)": claims(loss_before=1e9, loss_after=1e9),
    "wrong dtype (float64)": each(lambda tensor: tensor.astype(np.float64)),
    "wrong dtype (int)": each(lambda tensor: (tensor * 1000).astype(np.int64)),
    "wrong dtype (text)": each(lambda tensor: tensor.astype("U32")),
    "malformed content (no arrays record)": claims(delta=None),
    "malformed content (two arrays records)": change_tensors(lambda found: [found, found]),
    "malformed content (arrays under an unknown key)": change_tensors(
        lambda found: {"arrays": found}
    ),
    "malformed content (no metrics record)": claims(loss_before=None, loss_after=None),
    "malformed content (undecodable bytes)": one(lambda tensor: tensor.tobytes()[:30]),
    "malformed content (no message returned)": lambda update, first: None,
}


TWICE = "duplicate reply"
"""An engine cannot deliver this, because a turn has one answer. It is injected (`[faults]`)."""

ELSEWHERE = {
    "duplicate reply (two messages returned)": "not possible: a turn has one answer",
    "malformed content (an unknown record more)": "not possible: an update has fixed fields",
    "malformed content (an unknown metric more)": "not possible: an update has fixed fields",
    "client process killed": "replaced, the turn done again, same bits (chaos/kills.py workers)",
}


class BadEngine(InlineEngine):
    """The engine that computes in this process, with one client that gives bad replies."""

    reply: Reply = staticmethod(KINDS["none"])
    first: dict[str, ClientUpdate]

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """The honest results, except for one."""
        for job, result in zip(jobs, super().train(jobs, params, merge=merge), strict=True):
            if job.address.client == BAD and isinstance(result, ClientUpdate):
                kept = dataclasses.replace(result, delta=tensors(result))
                first = self.first.setdefault(job.address.task, kept)
                yield self.reply(result, first)
            else:
                yield result


def try_kind(kind: str, aggregator: str = "mean") -> dict[str, Any]:
    """The outcome of one kind of bad reply."""
    rule = AGGREGATORS.parse(aggregator)
    experiment = dataclasses.replace(Experiment.from_toml(EXPERIMENT), aggregator=rule)
    if kind == TWICE:
        twice = Misbehaving(does=Duplicate(), ids=(BAD,))
        experiment = dataclasses.replace(experiment, faults=Faults(clients=(twice,)))
    engine = BadEngine(experiment, None)
    engine.reply, engine.first = KINDS.get(kind, KINDS["none"]), {}
    states, records, ended = [], [], ""
    try:
        for state, record in mmfl.rounds(experiment, engine=engine):
            states.append(state)
            records.append(record)
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
    refused = [f for r in records for f in r.failures if f.address.client == BAD]
    outcome = "run ended" if ended else "refused" if refused else "aggregated"
    if 0 < len(refused) < len(records):
        outcome = f"refused in {len(refused)} of {len(records)} rounds"
    return {
        "outcome": "clean" if kind == "none" else outcome,
        "rounds": len(records),
        "refused": len(refused),
        "reasons": sorted({failure.reason for failure in refused}),
        "said": refused[0].detail if refused else ended,
        "final accuracy": records[-1].metric["clouds"] if records else None,
        "finite": all(bool(np.isfinite(p.flat).all()) for p in states[-1].params.values()),
    }


def table(ours: Mapping[str, Any], flower: Mapping[str, Any]) -> Iterator[str]:
    """A Markdown table: mmfl and Flower, by kind."""
    clean, theirs = ours["none"]["final accuracy"], flower["none"]["final accuracy"]
    yield f"| bad reply | mmfl (clean: {clean:.3f}) | Flower's FedAvg (clean: {theirs:.3f}) |"
    yield "|---|---|---|"
    for kind, found in ours.items():
        if kind == "none":
            continue
        why = f" ({', '.join(found['reasons'])})" if found["reasons"] else ""
        mine = f"{found['outcome']}{why}, {found['final accuracy']:.3f}"
        yield f"| {kind} | {mine} | {_of_flower(flower.get(kind))} |"
    for kind, other in flower.items():
        if kind not in ours:
            yield f"| {kind} | {ELSEWHERE[kind]} | {_of_flower(other)} |"


def _of_flower(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "not tried"
    if found["outcome"] == "run ended":
        return f"**run ended**: {found['exception']['type']}"
    finite = "" if all(found["finite"]) else ", **weights not finite**"
    return f"{found['outcome']}, {found['final accuracy']:.3f}{finite}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--flower", type=Path, default=HOUSE / "chaos/results/flower.json")
    given = parser.parse_args()
    ours = {kind: try_kind(kind) for kind in (*KINDS, TWICE)}
    rules = {
        kind: {rule: try_kind(kind, rule)["final accuracy"] for rule in AGGREGATORS.table}
        for kind in ("none", "scaled update", "sign-flipped")
    }
    result = {**machine("python -m chaos.clients", "mmfl", "numpy", "torch"), "seed": 0}
    result |= {"runs": ours, "final accuracy by aggregator": rules}
    save(result, given.out)
    flower = json.loads(given.flower.read_text())["runs"]["FedAvg"]
    lines = list(table(ours, flower))
    if given.out is not None:
        given.out.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(json.dumps(rules, indent=1))
    sys.exit(any(run["outcome"] == "run ended" or not run["finite"] for run in ours.values()))


if __name__ == "__main__":
    main()
