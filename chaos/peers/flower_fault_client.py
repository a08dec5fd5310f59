"""The client of `flower_faults.py`, and the bad replies it can give.

Client `BAD` gives them in every round; the others train honestly. It is a separate module, so that
Ray sends it to the actors by name.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp

__all__ = ["BAD", "CLIENTS", "EXAMPLES", "FAULTS", "Arrays", "app", "evaluate", "initial"]

Arrays = dict[str, np.ndarray]

SEED = 0
CLIENTS, BAD = 10, 0
FEATURES, CLASSES = 20, 10
EXAMPLES = 60  # of a client
EPOCHS, BATCH, RATE = 2, 20, 0.1

app = ClientApp()


@functools.cache
def _examples(path: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around one centre for each class; all clients have the same centres."""
    centres = np.random.default_rng(SEED).normal(size=(CLASSES, FEATURES))
    random = np.random.default_rng([SEED, *path])
    labels = random.integers(CLASSES, size=count)
    points = centres[labels] + 1.5 * random.normal(size=(count, FEATURES))
    return points.astype(np.float32), labels


def initial() -> Arrays:
    """Softmax regression, all zeros."""
    return {
        "weight": np.zeros((FEATURES, CLASSES), np.float32),
        "bias": np.zeros(CLASSES, np.float32),
    }


def _chances(arrays: Arrays, points: np.ndarray) -> np.ndarray:
    scores = points @ arrays["weight"] + arrays["bias"]
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _loss(arrays: Arrays, points: np.ndarray, labels: np.ndarray) -> float:
    chances = _chances(arrays, points)[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chances, 1e-12)).mean())


def evaluate(arrays: Arrays) -> tuple[float, float]:
    """Accuracy and loss on 2,000 points that no client has."""
    points, labels = _examples((2,), 2000)
    with np.errstate(all="ignore"):
        right = _chances(arrays, points).argmax(axis=1) == labels
        return float(right.mean()), _loss(arrays, points, labels)


def _trained(before: Arrays, client: int, server_round: int) -> tuple[Arrays, float]:
    """Train some epochs of plain SGD from `before`; also returns the loss afterwards."""
    points, labels = _examples((1, client), EXAMPLES)
    after = {name: values.astype(np.float32) for name, values in before.items()}
    random = np.random.default_rng([SEED, 3, client, server_round])
    with np.errstate(all="ignore"):
        for _ in range(EPOCHS):
            for batch in random.permutation(EXAMPLES).reshape(-1, BATCH):
                errors = _chances(after, points[batch])
                errors[np.arange(BATCH), labels[batch]] -= 1
                after["weight"] -= RATE * points[batch].T @ errors / BATCH
                after["bias"] -= RATE * errors.mean(axis=0)
        return after, _loss(after, points, labels)


@dataclass(frozen=True)
class Case:
    """What the bad client knows when it answers.

    Attributes:
        before: The arrays it was sent.
        after: The arrays it would honestly return.
        metrics: The metrics it would honestly return.
        server_round: From 1.
        message: The message that it answers.
        context: Its memory between rounds.
    """

    before: Arrays
    after: Arrays
    metrics: dict[str, Any]
    server_round: int
    message: Message
    context: Context

    def moved(self, factor: float) -> Arrays:
        """The arrays after `factor` times the honest update."""
        return {
            k: self.before[k] + np.float32(factor) * (v - self.before[k])
            for k, v in self.after.items()
        }


def _array_record(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})


def _reply(arrays: Arrays, metrics: dict[str, Any], **others: Any) -> RecordDict:
    return RecordDict({"arrays": _array_record(arrays), "metrics": MetricRecord(metrics), **others})


def _with_arrays(change: Callable[[Case], Arrays]) -> Fault:
    return lambda case: _reply(change(case), case.metrics)


def _with_metric(name: str, value: Any) -> Fault:
    return lambda case: _reply(case.after, case.metrics | {name: value})


def _all(value: float) -> Fault:
    return _with_arrays(lambda case: {k: np.full_like(v, value) for k, v in case.after.items()})


def _other_weight(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    return _with_arrays(lambda case: case.after | {"weight": change(case.after["weight"])})


def _as_type(dtype: Any) -> Fault:
    return _with_arrays(lambda case: {k: v.astype(dtype) for k, v in case.after.items()})


def _raises(case: Case) -> RecordDict:
    raise ConnectionError("the client is gone")


def _sleeps(seconds: float) -> Fault:
    def fault(case: Case) -> RecordDict:
        time.sleep(seconds)
        return _reply(case.after, case.metrics)

    return fault


def _exits(case: Case) -> RecordDict:
    os._exit(1)


def _replays(case: Case) -> RecordDict:
    """The arrays of round 1 in every later round, as an answer to the later message."""
    kept = case.context.state.array_records
    if case.server_round == 1:
        case.context.state["kept"] = _array_record(case.after)
        return _reply(case.after, case.metrics)
    return RecordDict({"arrays": kept["kept"], "metrics": MetricRecord(case.metrics)})


def _replays_message(case: Case) -> RecordDict | Message:
    """The answer to the message of round 1 in every later round, with its original address."""
    if case.server_round == 1:
        case.context.state["kept"] = ConfigRecord({"id": case.message.metadata.message_id})
        return _reply(case.after, case.metrics)
    reply = Message(_reply(case.after, case.metrics), reply_to=case.message)
    first = case.context.state.config_records["kept"]["id"]
    reply.metadata.__dict__["_reply_to_message_id"] = first
    return reply


def _undecodable(case: Case) -> RecordDict:
    reply = _reply(case.after, case.metrics)
    whole = reply.array_records["arrays"]["weight"]
    reply.array_records["arrays"]["weight"] = Array(
        dtype=whole.dtype, shape=whole.shape, stype=whole.stype, data=whole.data[:40]
    )
    return reply


def _without(name: str) -> Fault:
    def fault(case: Case) -> RecordDict:
        reply = _reply(case.after, case.metrics)
        del reply[name]
        return reply

    return fault


def _renamed(case: Case) -> RecordDict:
    return RecordDict({"weights": _array_record(case.after), "metrics": MetricRecord(case.metrics)})


def _other_model(case: Case) -> RecordDict:
    arrays = {"layer1.weight": np.zeros((8, 4), np.float32), "layer1.bias": np.zeros(4, np.float32)}
    return _reply(arrays, case.metrics)


Fault = Callable[[Case], RecordDict | Message | list[Message] | None]

_HONEST = _with_arrays(lambda case: case.after)
_NEVER, _LATE = 60.0, 9.0  # seconds; the deadline of a round is 6

FAULTS: dict[str, Fault] = {
    "none": _HONEST,
    "dropout": _raises,
    "never answers": _sleeps(_NEVER),
    "too slow": _sleeps(_LATE),
    "NaN update": _all(np.nan),
    "Inf update": _all(np.inf),
    "wrong shape": _other_weight(lambda w: np.vstack([w, w[:1]])),
    "wrong shape (transposed)": _other_weight(lambda w: w.T),
    "wrong shape (one row, arrives last)": _other_weight(lambda w: w[:1]),
    "wrong shape (one row, arrives first)": _other_weight(lambda w: w[:1]),
    "missing tensor": _with_arrays(lambda case: {"weight": case.after["weight"]}),
    "extra tensor": _with_arrays(lambda case: case.after | {"extra": np.ones(3, np.float32)}),
    "absurd weight (10**12)": _with_metric("num-examples", 10**12),
    "absurd weight (10**12, sign-flipped)": lambda case: _reply(
        case.moved(-1), case.metrics | {"num-examples": 10**12}
    ),
    "absurd weight (0)": _with_metric("num-examples", 0),
    "absurd weight (negative)": _with_metric("num-examples", -EXAMPLES),
    "absurd weight (negative, the sum is 0)": _with_metric(
        "num-examples", -EXAMPLES * (CLIENTS - 1)
    ),
    "absurd weight (NaN)": _with_metric("num-examples", float("nan")),
    "absurd weight (str)": _with_metric("num-examples", "60"),
    "absurd weight (list)": _with_metric("num-examples", [EXAMPLES]),
    "absurd weight (missing)": lambda case: _reply(
        case.after, {k: v for k, v in case.metrics.items() if k != "num-examples"}
    ),
    "scaled update": _with_arrays(lambda case: case.moved(1e6)),
    "sign-flipped": _with_arrays(lambda case: case.moved(-1)),
    "duplicate reply": _HONEST,  # delivered twice by the transport: see flower_faults.py
    "duplicate reply (two messages returned)": lambda case: [
        Message(_reply(case.after, case.metrics), reply_to=case.message) for _ in range(2)
    ],
    "replay": _replays,
    "replay (addressed to the earlier message)": _replays_message,
    "reply for another model": _other_model,
    "false reported loss (NaN)": _with_metric("loss", float("nan")),
    "false reported loss (1e9)": _with_metric("loss", 1e9),
    "wrong dtype (float64)": _as_type(np.float64),
    "wrong dtype (int)": _as_type(np.int64),
    "wrong dtype (text)": _as_type(str),
    "malformed content (no arrays record)": _without("arrays"),
    "malformed content (two arrays records)": lambda case: _reply(
        case.after, case.metrics, more=_array_record(case.after)
    ),
    "malformed content (arrays under an unknown key)": _renamed,
    "malformed content (an unknown record more)": lambda case: _reply(
        case.after, case.metrics, unknown=ConfigRecord({"a": 1})
    ),
    "malformed content (no metrics record)": _without("metrics"),
    "malformed content (an unknown metric more)": _with_metric("unknown", 1.0),
    "malformed content (undecodable bytes)": _undecodable,
    "malformed content (no message returned)": lambda case: None,
    "client process killed": _exits,
}


def _waits(kind: str, client: int) -> None:
    """Let the bad client answer first or last, where the order of the replies matters."""
    first, last = kind.endswith("first)"), kind.endswith("last)")
    if (last and client == BAD) or (first and client != BAD):
        time.sleep(2.0 if last else 0.7)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Which client this is; slow, so that every actor is asked, and ready for the first round."""
    time.sleep(0.5)
    client = int(context.node_config["partition-id"])
    return Message(RecordDict({"metrics": MetricRecord({"client": client})}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message | None:
    """An honest round, or the fault that the configuration names."""
    config = message.content.config_records["config"]
    kind, server_round = str(config["kind"]), int(config["server-round"])
    client = int(context.node_config["partition-id"])
    sent = message.content.array_records["arrays"]
    before = {name: array.numpy() for name, array in sent.items()}
    after, loss = _trained(before, client, server_round)
    metrics = {"num-examples": EXAMPLES, "loss": loss, "client": client}
    _waits(kind, client)
    fault = FAULTS[kind] if client == BAD else _HONEST
    reply = fault(Case(before, after, metrics, server_round, message, context))
    return Message(reply, reply_to=message) if isinstance(reply, RecordDict) else reply
