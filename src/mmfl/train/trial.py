"""One small batch through a new model: what does not fit is found before training."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import torch

from mmfl.errors import EngineError
from mmfl.models import MODELS
from mmfl.objectives import check_mean
from mmfl.rng import stream
from mmfl.system.definitions import describe_place
from mmfl.train.task_setup import TaskSetup, guard_task

__all__ = ["try_out"]


def try_out(setup: TaskSetup, precision: str, batch_size: int) -> None:
    """One small batch forward, so that a model that does not fit is found before training."""
    name, data = setup.task.name, setup.data
    _refuse_tokens(setup)
    setup.resident.module.eval()
    rows = np.arange(min(2, len(data.y_train)))
    model, loss = setup.task.model, setup.task.loss
    with setup.device.isolate(), torch.no_grad(), setup.device.seed(stream(0, "try")):
        with guard_task(name, "its examples cannot be prepared", model):  # by a user's `Augment`
            x, y = setup.inputs.train(rows, rng=stream(0, "try"))
        with guard_task(name, "its model does not run", model, partial(_hint_at_tokens, setup)):
            outputs = setup.outputs(x, y, "float32")
            setup.resident.check()
    shape = (len(rows), *y.shape[1:])
    if data.classes is not None:
        shape = (len(rows), data.classes, *y.shape[1:])
    if loss.targets != "any" and tuple(outputs.shape) != shape:
        wanted = f"{data.outputs} outputs"
        if len(shape) > 2:
            wanted = f"outputs of shape {shape[1:]}"
        hint = ""
        if y.ndim > 1 and outputs.shape == y.shape:
            hint = "; if its targets are one-hot, give y.argmax(1)"
        elif data.classes == 2 and outputs.numel() == len(y):
            hint = '; for one yes-or-no output, give real targets and loss = "binary_cross_entropy"'
        raise EngineError(
            f"task {name!r}: its model must give {wanted} per example, "
            f"got shape {tuple(outputs.shape)} for {len(x)} examples{hint}"
            f"{describe_place(setup.resident.module, model)}"
        )
    with (
        guard_task(name, "its loss or metric fails", loss),
        setup.device.isolate(),
        torch.no_grad(),
        setup.device.seed(stream(0, "try")),
    ):
        check_mean(loss.mean(outputs, y), loss)
        setup.measure(rows, "train", precision, batch_size)


def _hint_at_tokens(setup: TaskSetup, error: BaseException) -> str:
    """What helps if a network got whole numbers where it wanted real ones."""
    if setup.data.x_train.dtype != np.int64 or not re.search(
        r"(?i)\blong\b|same dtype", str(error)
    ):
        return ""
    return "; its examples are whole numbers, which count as tokens: give them as float32"


def _refuse_tokens(setup: TaskSetup) -> None:
    """Refuse whole numbers as examples of a built-in model that cannot embed them."""
    model, data = setup.task.model, setup.data
    if data.x_train.dtype != np.int64 or MODELS.kind_of(model) not in MODELS.table:
        return
    rule = "which only models of sequences (gru, lstm, transformer, cnn1d) and your own"
    if getattr(model, "takes_tokens", False):
        if data.vocabulary is not None:
            return
        rule = "but some are negative, which only your own model"
    raise EngineError(
        f"task {setup.task.name!r}: its examples are whole numbers, {rule} (with an embedding) "
        "can take; give them as float32 or as bytes"
    )
