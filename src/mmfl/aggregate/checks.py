"""The server trusts nothing it receives: what an update must be before it may touch a model.

`check_update` is the whole list. It runs in the round loop for every update that arrives with its
delta, and in our own worker for every update that goes into a partial sum.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field, Strict

from mmfl.config import component, short
from mmfl.errors import text_of
from mmfl.exchange import Address, ClientFailure, ClientUpdate, Flat, Layout, Params
from mmfl.system.user_code import pass_on

__all__ = ["REFUSALS", "Checks", "check_update", "norm_of"]

REFUSALS = frozenset(
    ("malformed", "address", "examples", "samples", "seconds", "loss", "names", "dtype", "shape")
) | {"not finite", "norm"}
"""The reasons that `check_update` gives: what a client is to blame for."""


@component
class Checks:
    """Limits for updates.

    Attributes:
        max_norm: An update with a larger Euclidean norm is refused; inf accepts every finite one.
    """

    max_norm: Annotated[float, Strict(), Field(gt=0)] = 1e6


def norm_of(flat: Flat) -> float:
    """Euclidean norm to about six digits, in a fixed order: the same bits in any process.

    Products of up to 4,096 numbers are added in float32 (few enough for BLAS to use one thread),
    their sums in float64; if float32 overflows or nearly underflows, everything is done in float64.
    """
    whole = len(flat) // 4096 * 4096
    blocks, rest = flat[:whole].reshape(-1, 4096), flat[whole:]
    with np.errstate(over="ignore", invalid="ignore"):
        square = sum([*np.vecdot(blocks, blocks).tolist(), float(rest.dot(rest))])
        if not 1e-20 < square < 1e36:
            square = sum(float(np.square(b, dtype=np.float64).sum()) for b in (*blocks, rest))
        return math.sqrt(square)


def check_update(
    update: ClientUpdate, address: Address, layout: Layout, holds: int, limits: Checks
) -> ClientUpdate | ClientFailure:
    """The update with its delta packed and its norm measured here, or the reason to refuse it.

    Args:
        update: As it arrived.
        address: What was asked for: run, round, task, client and model version.
        layout: The task's tensors.
        holds: How many examples of the task the server knows the client to hold.
        limits: The experiment's.
    """
    try:
        fault = _fault(update, address, layout, holds)
        if fault is None:
            assert update.delta is not None
            delta = update.delta
            if not isinstance(delta, Params):
                delta = Params.pack(layout, delta)
            norm = norm_of(delta.flat)
            if math.isfinite(norm) and norm <= limits.max_norm:
                return ClientUpdate(  # `dataclasses.replace` takes twice as long
                    update.address,
                    delta,
                    update.examples,
                    update.samples,
                    update.loss_before,
                    update.loss_after,
                    norm,
                    update.seconds,
                    update.probability,
                )
            fault = ("not finite", "the update contains NaN or infinity")
            if math.isfinite(norm):
                fault = ("norm", f"norm {norm:.3g} exceeds checks.max_norm = {limits.max_norm:g}")
    except BaseException as error:  # any error from a malformed reply is that client's failure
        pass_on(error)
        fault = ("malformed", f"{type(error).__name__}: {text_of(error)}")
    return ClientFailure(address, *fault)


def _fault(
    update: ClientUpdate, address: Address, layout: Layout, holds: int
) -> tuple[str, str] | None:
    if not isinstance(update, ClientUpdate):
        return "malformed", f"expected an update, got {type(update).__name__}"
    if update.address != address:
        return "address", f"answers {tuple(update.address)} instead of {tuple(address)}"
    examples, samples = update.examples, update.samples
    if isinstance(examples, bool) or not isinstance(examples, int) or not 0 < examples <= holds:
        return "examples", f"claims {examples!r} examples, but holds {holds}"
    if isinstance(samples, bool) or not isinstance(samples, int) or not 0 <= samples < 2**53:
        return "samples", f"claims {samples!r} samples"
    if not (math.isfinite(update.loss_before) and math.isfinite(update.loss_after)):
        return (
            "loss",
            f"loss {update.loss_before:g} before and {update.loss_after:g} after training",
        )
    seconds = update.seconds
    if not isinstance(seconds, float | int) or not abs(seconds) <= sys.float_info.max:
        return "seconds", f"claims {short(seconds)} seconds"
    if isinstance(update.delta, Params) and update.delta.layout == layout:
        return None
    if not isinstance(update.delta, Mapping):
        return "malformed", f"expected a mapping of tensors, got {type(update.delta).__name__}"
    if set(update.delta) != set(layout.places):
        odd = sorted(map(str, set(update.delta) ^ set(layout.places)))[0]
        return "names", f"tensor {odd!r} is {'missing' if odd in layout.places else 'unknown'}"
    for name, shape in layout.entries:
        tensor = update.delta[name]
        if not isinstance(tensor, np.ndarray) or tensor.dtype != np.float32:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            return "dtype", f"tensor {name!r} must be float32, got {kind}"
        if tensor.shape != shape:
            return "shape", f"tensor {name!r} must have shape {shape}, got {tensor.shape}"
    return None
