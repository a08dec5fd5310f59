"""A trained network that takes examples as users have them, without the training data.

Examples go the way that they go in an evaluation: `Inputs` scales them and lays them out, the
network gets batches of the size that evaluations have, in the precision of the experiment.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mmfl.config import short
from mmfl.data import Arrays, Augment, encode_features, read_frame
from mmfl.errors import InputError, StoreError
from mmfl.experiment import ModelDescription
from mmfl.models import Model
from mmfl.rng import stream
from mmfl.system.user_code import Guard, pass_on
from mmfl.train.building import make_network
from mmfl.train.inputs import Inputs
from mmfl.train.layers import supports_channels_last
from mmfl.train.reference import forward, match_shape
from mmfl.train.resident import find_weights
from mmfl.train.seeding import isolate_torch

__all__ = ["TrainedModel", "build_model"]

Anything = npt.NDArray[Any]
Weights = Mapping[str, npt.NDArray[Any]]


class TrainedModel(nn.Module):
    """A trained network in evaluation mode.

    Calling it is calling the network, with tensors as `prepare` makes them. `predict` takes
    examples as they are in the data set.

    Attributes:
        network: The network itself.
        description: How it is built and used.
    """

    def __init__(self, network: nn.Module, description: ModelDescription) -> None:
        super().__init__()
        self.network = network
        self.description = description
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """The network's outputs for prepared examples."""
        outputs: Tensor = self.network(x)
        return outputs

    def prepare(self, x: Any) -> Tensor:
        """Examples as the network gets them: scaled, images as N x C x H x W.

        Args:
            x: Examples as `predict` takes them.
        """
        rows = self._read(x)
        return self._inputs(rows).test(np.arange(len(rows)))[0]

    def predict(self, x: Any, *, batch_size: int | None = None) -> Anything:
        """What the model says of each example: its class, 0 or 1 for each question, or its numbers.

        Classes are given by their names if these are known, else as numbers from 0.

        Args:
            x: Examples as they are in the data set, before scaling: an array, a tensor, a list, or
                a DataFrame with the columns that the model was trained with.
            batch_size: How many go through the network at a time; by default as many as in the
                run's evaluations.
        """
        found = [self._answer(outputs) for outputs in self._outputs(x, batch_size)]
        answers: Anything = np.concatenate(found) if found else self._answer(self._nothing())
        names = self.description.class_names
        return answers if names is None else _as_column(names)[answers]

    def predict_probabilities(self, x: Any, *, batch_size: int | None = None) -> Anything:
        """The probability of each class (N x classes), or of a yes to each question.

        The softmax, or the sigmoid, of the network's outputs.

        Args:
            x: As in `predict`.
            batch_size: As in `predict`.
        """
        if self.description.answers == "numbers":
            raise InputError(
                f"task {self.description.task!r} predicts numbers, which have no probabilities; "
                "use predict"
            )
        found = [self._chances(outputs) for outputs in self._outputs(x, batch_size)]
        chances: Anything = np.concatenate(found) if found else self._chances(self._nothing())
        return chances

    def extra_repr(self) -> str:
        """Which task it is for."""
        return f"task={self.description.task!r}"

    def _outputs(self, x: Any, batch_size: int | None) -> Iterator[Tensor]:
        """The network's outputs, batch after batch, in the shape of targets."""
        about = self.description
        rows, size = self._read(x), about.batch_size if batch_size is None else batch_size
        if not isinstance(size, int | np.integer) or size < 1:
            raise InputError(f"batch_size must be a whole number >= 1, got {short(size)}")
        inputs, device = self._inputs(rows), next(self.network.parameters()).device
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(rows), size):
                    batch, y = inputs.test(np.arange(start, min(start + size, len(rows))))
                    outputs = forward(self.network, batch.to(device), about.precision)
                    yield match_shape(outputs.cpu(), y)
        finally:
            self.train(training)

    def _nothing(self) -> Tensor:
        """The outputs for no examples."""
        about = self.description
        classes = () if about.classes is None else (about.classes,)
        return torch.zeros((0, *classes, *about.target))

    def _answer(self, outputs: Tensor) -> Anything:
        if self.description.answers == "yes or no":
            return (outputs > 0).long().numpy()
        if self.description.answers == "numbers":
            return outputs.numpy()
        return self._per_class(outputs).argmax(1).numpy()

    def _chances(self, outputs: Tensor) -> Anything:
        if self.description.answers == "yes or no":
            return outputs.sigmoid().numpy()
        return self._per_class(outputs).softmax(1).numpy()

    def _per_class(self, outputs: Tensor) -> Tensor:
        """The outputs, if there is one per class."""
        about = self.description
        wanted = (len(outputs), about.classes, *about.target)
        if tuple(outputs.shape) != wanted:
            raise InputError(
                f"the model of task {about.task!r} gives outputs of shape "
                f"{tuple(outputs.shape[1:])} for {about.classes} classes, and only its loss knows "
                "what they mean; use model(model.prepare(x))"
            )
        return outputs

    def _inputs(self, rows: Anything) -> Inputs:
        """These rows, as an evaluation would see them."""
        about = self.description
        kind = np.float32 if about.classes is None else np.int64
        y = np.broadcast_to(np.zeros((), kind), (len(rows), *about.target))  # means nothing
        data = Arrays(rows, y, rows, y, about.classes)
        last = supports_channels_last(self.network)
        known = _Known(about)
        return Inputs(data, known, Augment(), channels_last=last, series=about.series)

    def _read(self, x: Any) -> Anything:
        """Examples as an array of the shape and the type that the training data had."""
        about = self.description
        rows = _as_array(x, about)
        if rows.ndim > 3 and (*rows.shape[2:], rows.shape[1]) == about.example != rows.shape[1:]:
            rows = np.moveaxis(rows, 1, -1)  # N x C x H x W, as the data was given
        if rows.shape[1:] != about.example or not rows.ndim:
            hint = "; for a single example, pass x[None]" if rows.shape == about.example else ""
            raise InputError(
                f"x must be a batch of examples of shape {about.example}, got shape "
                f"{rows.shape}{hint}"
            )
        return _as_kind(rows, np.dtype(about.dtype), about.vocabulary)


@dataclass(frozen=True)
class _Known:
    """A `Normalize` whose numbers are known."""

    about: ModelDescription

    def scaling(self, data: Arrays) -> Any:
        """Those of the training data."""
        return self.about.scaling


def build_model(model: Model, description: ModelDescription, weights: Weights) -> TrainedModel:
    """The network with these weights; `StoreError` if they are not its own.

    Args:
        model: What builds the network.
        description: How it is used.
        weights: By tensor name.
    """
    name = description.task
    with (
        Guard(f"task {name!r}: its model cannot be built", part=model, always=True, wraps=True),
        isolate_torch(),
    ):
        shape, outputs = description.model_shape, description.outputs
        network = _copy(make_network(model, shape, outputs, stream(0, "build", name)))
        state = network.state_dict(keep_vars=True)
        own: dict[str, Tensor] = {k: v for k, v in state.items() if isinstance(v, Tensor)}
        needed = find_weights(network)
    found = next((key for key in needed if key not in weights), None)
    if found is None:
        found = next((key for key in weights if key not in own), None)
    if found is not None:
        raise StoreError(
            f"task {name!r}: the weights are of another network: {found!r} is in only one of them"
        )
    for key, array in weights.items():
        if tuple(own[key].shape) != array.shape:
            raise StoreError(
                f"task {name!r}: the weights are of another network: {key!r} has shape "
                f"{array.shape} there, and {tuple(own[key].shape)} here"
            )
    with torch.no_grad():
        for key, array in weights.items():
            own[key].copy_(torch.from_numpy(array.copy()))
    return TrainedModel(network, description)


def _copy(network: nn.Module) -> nn.Module:
    """A copy, if it can be made: a user's function may always give the same network."""
    try:
        return copy.deepcopy(network)
    except Exception as error:
        pass_on(error)
        return network


def _as_array(x: Any, about: ModelDescription) -> Anything:
    """Whatever a user has, as an array."""
    if hasattr(x, "columns") and hasattr(x, "iloc") and about.features is not None:
        if not len(x):
            return np.zeros((0, *about.example), np.float32)
        return encode_features(read_frame(x, "x"), about.features)
    if isinstance(x, Tensor):
        x = x.detach().cpu()
    try:
        rows = np.asarray(x)
    except (TypeError, ValueError):
        rows = np.empty(0, object)
    if rows.dtype.kind not in "fiub":
        raise InputError(f"x must be an array of numbers, got {short(x)}")
    return rows


def _as_kind(rows: Anything, kind: np.dtype[Any], vocabulary: int | None) -> Anything:
    """Examples in the type that the training data had, if they can be."""
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            rows = rows.astype(kind)
        if not np.isfinite(rows).all():
            raise InputError("x must contain only finite float32 values")
        return np.ascontiguousarray(rows)
    least, most = (0, 255) if kind == np.uint8 else (-(2**63), 2**63 - 1)
    if vocabulary is not None:
        least, most = 0, vocabulary - 1
    whole = rows.dtype.kind != "f" or bool((rows == np.floor(rows)).all())
    if not whole or rows.min(initial=least) < least or rows.max(initial=least) > most:
        what = "bytes" if kind == np.uint8 else "whole numbers"
        limits = f" from {least} to {most}" if most < 2**63 - 1 else ""
        raise InputError(
            f"x must be {what}{limits}, as the training data was, got values from "
            f"{rows.min():g} to {rows.max():g}"
        )
    return np.ascontiguousarray(rows.astype(kind))


def _as_column(names: tuple[Any, ...]) -> Anything:
    """Names as an array; of different types, as objects."""
    if len({*map(type, names)}) == 1:
        return np.array(names)
    found = np.empty(len(names), object)
    found[:] = names
    return found
