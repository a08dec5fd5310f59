"""What nodes reply, read as results. Whatever is wrong with a reply is its client's failure.

Only the form is checked here. The round loop checks what the numbers say (`mmfl.loop`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flwr.app import Array, RecordDict

from mmfl.config import short
from mmfl.engines.flower.nodes import Answer, Silence
from mmfl.engines.flower.records import KEY, unpack_array, unpack_arrays, unpack_table
from mmfl.errors import InputError, one_line, shorten
from mmfl.exchange import (
    DONE,
    Address,
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Layout,
    Params,
)
from mmfl.system.user_code import pass_on

__all__ = ["read_evaluations", "read_update"]


class _RefusedError(Exception):
    """A reply breaks a rule: the reason and the sentence."""


def read_update(
    job: Job, reply: Answer | Silence, layout: Layout, most: int
) -> ClientUpdate | ClientFailure:
    """A turn's result.

    Args:
        job: What was asked.
        reply: What came.
        layout: The task's tensors.
        most: An update counts with at most this many examples.
    """
    address = job.address
    try:
        table = _open(reply, "delta")
        if "failed" in table:
            return ClientFailure(address, "raised", _quote(table["failed"]))
        claimed = table.get("address")
        if not isinstance(claimed, list) or len(claimed) != len(address):
            raise _RefusedError("address", f"answers {short(claimed)} instead of {tuple(address)}")
        done: dict[str, Any] = {name: table.get(name) for name in DONE} | {"norm": math.nan}
        if type(done["examples"]) is int:
            done["examples"] = min(done["examples"], most)
        assert isinstance(reply, Answer)
        delta = Params(layout, _read_vector(reply.content, layout.size))
        return ClientUpdate(Address(*claimed), delta, **done)
    except _RefusedError as refused:
        return ClientFailure(address, *refused.args)
    except Exception as error:  # whatever Flower made of what a node sent
        pass_on(error)
        return ClientFailure(address, "malformed", shorten(one_line(error), 300))


def read_evaluations(
    client: int,
    tasks: Sequence[str],
    reply: Answer | Silence,
    sums: Mapping[str, tuple[int, ...]],
) -> Iterator[Evaluation | EvaluationFailure]:
    """A client's evaluations of some tasks.

    Args:
        client: Who was asked.
        tasks: About what.
        reply: What came.
        sums: From task to the shape of its metric's sums, where it has some.
    """
    try:
        table = _open(reply, "tallies")
        if "failed" in table:
            raise _RefusedError("raised", _quote(table["failed"]))
        found = table.get("found")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise _RefusedError("malformed", "the message has no list of evaluations")
        by_task = {one.get("task"): one for one in found}
        tallies = {}
        assert isinstance(reply, Answer)
        if reply.content.array_records:
            tallies = dict(unpack_arrays(reply.content, "tallies"))
    except _RefusedError as refused:
        yield from (EvaluationFailure(task, client, *refused.args) for task in tasks)
        return
    except Exception as error:
        pass_on(error)
        said = shorten(one_line(error), 300)
        yield from (EvaluationFailure(task, client, "malformed", said) for task in tasks)
        return
    for task in tasks:
        yield _read_evaluation(client, task, by_task.get(task), tallies.get(task), sums.get(task))


def _read_evaluation(
    client: int,
    task: str,
    found: Mapping[str, Any] | None,
    tally: Array | None,
    shape: tuple[int, ...] | None,
) -> Evaluation | EvaluationFailure:
    if found is None:
        return EvaluationFailure(task, client, "evaluation", "no answer")
    if "failed" in found:
        return EvaluationFailure(task, client, "raised", _quote(found["failed"]))
    numbers = (found.get(name) for name in ("examples", "loss", "metric"))
    sums = None
    if tally is not None and shape is not None:
        try:
            sums = unpack_array(tally, math.prod(shape), "float64").reshape(shape)
        except InputError as error:
            return EvaluationFailure(task, client, "malformed", str(error))
    examples, loss, metric = numbers
    guess: Any = found.get("guess", math.nan)
    made: Any = Evaluation
    result: Evaluation = made(task, examples, loss, metric, client, guess, sums)
    return result


def _open(reply: Answer | Silence, arrays: str) -> dict[str, Any]:
    """The table of a reply that has the right records."""
    if isinstance(reply, Silence):
        raise _RefusedError(reply.reason, reply.detail)
    content = reply.content
    odd = [name for name in content if name not in (KEY, arrays)]
    if odd or content.metric_records:
        raise InputError(f"the message has an unknown record {short(odd[0] if odd else KEY)}")
    return unpack_table(content)


def _read_vector(content: RecordDict, size: int) -> Any:
    """The update of a reply."""
    arrays = unpack_arrays(content, "delta")
    if list(arrays) != ["flat"]:
        odd = sorted(set(arrays) ^ {"flat"})[0]
        said = f"tensor {short(odd)} is {'missing' if odd == 'flat' else 'unknown'}"
        raise _RefusedError("names", said)
    array = arrays["flat"]
    if array.dtype != "float32":
        raise _RefusedError("dtype", f"tensor 'flat' must be float32, got {short(array.dtype)}")
    if tuple(array.shape) != (size,):
        shape = short(tuple(array.shape))
        raise _RefusedError("shape", f"tensor 'flat' must have shape ({size},), got {shape}")
    return unpack_array(array, size)


def _quote(failed: Any) -> str:
    """What a node says of its own failure."""
    return shorten(one_line(failed if isinstance(failed, str) else short(failed)), 300)
