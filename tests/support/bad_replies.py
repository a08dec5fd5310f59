"""Bad replies of a Flower node, by kind: the reason they are refused for, and what makes them."""

from __future__ import annotations

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

__all__ = ["BAD", "rewrite"]


def rewrite(**changes):
    """A bad node: other values in the table of its reply; None removes one."""

    def change(message, reply):
        table = json.loads(reply.content.config_records["mmfl"]["json"]) | changes
        table = {key: value for key, value in table.items() if value is not None}
        reply.content["mmfl"] = ConfigRecord({"json": json.dumps(table)})
        return [reply]

    return change


def send(make):
    """A bad node: another vector, or other arrays."""

    def change(message, reply):
        made = make(reply.content.array_records["delta"]["flat"].numpy())
        made = made if isinstance(made, dict) else {"flat": made}
        arrays = {name: one if isinstance(one, Array) else Array(one) for name, one in made.items()}
        reply.content["delta"] = ArrayRecord(arrays)
        return [reply]

    return change


def records(**changes):
    """A bad node: other records; None removes one."""

    def change(message, reply):
        for name, record in changes.items():
            del reply.content[name]
            if record is not None:
                reply.content[name] = record
        return [reply]

    return change


def lie(flat, **claims):
    """An array whose description is false."""
    told = {"dtype": "float32", "shape": flat.shape, "stype": "numpy.ndarray"}
    return Array(**(told | {"data": Array(flat).data} | claims))


HUGE = (
    np.lib.format.magic(1, 0)
    + b"v\x00"
    + (b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n")
)
BAD = {
    "NaN": ("not finite", send(lambda flat: flat * np.float32("nan"))),
    "infinite": ("not finite", send(lambda flat: flat + np.float32("inf"))),
    "one number more": ("shape", send(lambda flat: np.append(flat, flat[:1]))),
    "two dimensions": ("shape", send(lambda flat: flat[None])),
    "no tensor": ("names", send(lambda flat: {})),
    "another tensor": ("names", send(lambda flat: {"w": flat})),
    "one tensor more": ("names", send(lambda flat: {"flat": flat, "w": flat})),
    "float64": ("dtype", send(lambda flat: flat.astype(np.float64))),
    "text": ("dtype", send(lambda flat: flat.astype(str))),
    "false dtype": ("malformed", send(lambda flat: lie(flat.astype(np.int32)))),
    "false shape": ("malformed", send(lambda flat: lie(flat[:-1], shape=flat.shape))),
    "cut": ("malformed", send(lambda flat: lie(flat, data=Array(flat).data[:-3]))),
    "a huge header": ("malformed", send(lambda flat: lie(flat, data=HUGE.ljust(4 * len(flat))))),
    "no header": ("malformed", send(lambda flat: lie(flat, data=b"x" * (4 * len(flat) + 128)))),
    "a pickle": ("malformed", send(lambda flat: lie(flat, stype="pickle"))),
    "scaled": ("norm", send(lambda flat: flat * np.float32(1e12))),
    "10**12 examples": ("examples", rewrite(examples=10**12)),
    "no examples": ("examples", rewrite(examples=0)),
    "NaN examples": ("examples", rewrite(examples=float("nan"))),
    "text for examples": ("examples", rewrite(examples="60")),
    "a list of examples": ("examples", rewrite(examples=[60])),
    "examples missing": ("examples", rewrite(examples=None)),
    "loss NaN": ("loss", rewrite(loss_before=float("nan"))),
    "loss missing": ("malformed", rewrite(loss_after=None)),
    "seconds": ("seconds", rewrite(seconds="long")),
    "another address": ("address", rewrite(address=["x", 1, "a", 0, 0])),
    "an odd address": ("address", rewrite(address=3)),
    "address missing": ("address", rewrite(address=None)),
    "its own failure": ("raised", rewrite(failed=["raised", "no more\x1b[2J memory"])),
    "an odd failure": ("raised", rewrite(failed={"x": 1})),
    "no delta": ("malformed", records(delta=None)),
    "no table": ("malformed", records(mmfl=None)),
    "not JSON": ("malformed", records(mmfl=ConfigRecord({"json": "{"}))),
    "deep JSON": ("malformed", records(mmfl=ConfigRecord({"json": "[" * 100_000}))),
    "long JSON": ("malformed", records(mmfl=ConfigRecord({"json": "1" * 2_000_000}))),
    "a list": ("malformed", records(mmfl=ConfigRecord({"json": "[]"}))),
    "bytes": ("malformed", records(mmfl=ConfigRecord({"json": b"{}"}))),
    "nothing": ("malformed", lambda message, reply: [Message(RecordDict(), reply_to=message)]),
    "an error": (
        "raised",
        lambda message, reply: [Message(Error(2, "ValueError: no"), reply_to=message)],
    ),
    "its node left": (
        "dropout",
        lambda message, reply: [Message(Error(5, "Node Unavailable"), reply_to=message)],
    ),
    "silence": ("timeout", lambda message, reply: []),
}
