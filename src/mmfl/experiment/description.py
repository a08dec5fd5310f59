"""What it takes to use a trained model without its training data: stored with every run.

A `ModelDescription` says how the network is built, how raw examples become its inputs, and what its
outputs mean.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import dump
from mmfl.data import Arrays, ClassNames, Feature
from mmfl.errors import DataError, MmflError, StoreError
from mmfl.exchange import Shape
from mmfl.models import MODELS
from mmfl.objectives import BinaryCrossEntropy
from mmfl.system.user_code import Guard, add_prefix

if TYPE_CHECKING:
    from mmfl.experiment.experiment import Experiment
    from mmfl.experiment.parts import Task

__all__ = ["ModelDescription", "Scaling", "describe_model", "find_model_shape", "find_scaling"]

FORMAT = 1

Scaling = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None

Answers = Literal["classes", "yes or no", "numbers"]


@dataclass(frozen=True)
class ModelDescription:
    """How a task's network is built and used.

    Attributes:
        task: The task's name.
        model: The network's settings, as an experiment file has them.
        shape: The shape of an example, as the network was built for it.
        vocabulary: How many tokens there are, if examples are tokens.
        places: The shape of an example's class numbers; see `Shape`.
        outputs: How many numbers the network gives per example.
        example: The shape of an example as the user has it.
        dtype: What examples are made of, such as "uint8" or "float32".
        mean: What is subtracted from examples, per channel or feature or for all; None = nothing.
        std: What they are divided by then.
        features: The columns of the table whose rows the examples are; None = not known.
        target: The shape of an example's target.
        answers: What the outputs mean.
        classes: How many classes there are; None if the answers are something else.
        class_names: What they are called; None = nothing.
        precision: In which the network was trained and evaluated.
        batch_size: With which it was evaluated.
    """

    task: str
    model: Mapping[str, Any]
    shape: tuple[int, ...]
    vocabulary: int | None
    places: tuple[int, ...]
    outputs: int
    example: tuple[int, ...]
    dtype: str
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    features: tuple[Feature, ...] | None
    target: tuple[int, ...]
    answers: Answers
    classes: int | None
    class_names: ClassNames | None
    precision: str
    batch_size: int

    @property
    def model_shape(self) -> Shape:
        """The shape that the network is built with."""
        return Shape(self.shape, vocabulary=self.vocabulary, places=self.places)

    @property
    def series(self) -> bool:
        """Whether the network gets examples of N x T x F as they are."""
        return len(self.example) == 2 and self.shape == self.example

    @property
    def scaling(self) -> Scaling:
        """Mean and standard deviation; None = examples are left alone."""
        if self.mean is None or self.std is None:
            return None
        return np.array(self.mean, np.float32), np.array(self.std, np.float32)

    def to_table(self) -> dict[str, Any]:
        """Plain values."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    def to_json(self) -> str:
        """As text."""
        return json.dumps(self.to_table())

    @classmethod
    def from_json(cls, text: str, where: str) -> ModelDescription:
        """The inverse of `to_json`; `StoreError` if it is malformed.

        Args:
            text: The description.
            where: What it is called in messages.
        """
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            raise StoreError(f"{where} is malformed") from None
        return cls.from_table(table, where)

    @classmethod
    def from_table(cls, table: Any, where: str) -> ModelDescription:
        """The inverse of `to_table`; `StoreError` if it is malformed."""
        if isinstance(table, dict) and table.get("format") != FORMAT:
            raise StoreError(f"{where} was written by another version of mmfl")
        try:
            rest = {**table}
            del rest["format"]
            for name in ("shape", "places", "example", "target"):
                rest[name] = _check_sizes(rest[name])
            for name in ("mean", "std"):
                rest[name] = rest[name] and tuple(map(float, rest[name]))
            if rest["features"] is not None:
                rest["features"] = tuple(
                    Feature(str(name), values and tuple(map(str, values)))
                    for name, values in rest["features"]
                )
            if rest["class_names"] is not None:
                rest["class_names"] = _check_names(rest["class_names"])
            made = cls(**rest)
            made._check()
        except (TypeError, ValueError, KeyError):
            raise StoreError(f"{where} is malformed") from None
        return made

    def _check(self) -> None:
        """Raise `ValueError` where a value makes no sense."""
        texts = (self.task, self.model["kind"], self.dtype, self.precision)
        whole = (self.outputs, self.batch_size)
        good = (
            all(isinstance(text, str) for text in texts)
            and all(type(number) is int and number > 0 for number in whole)
            and all(number is None or type(number) is int for number in (self.vocabulary,))
            and np.dtype(self.dtype).kind in "fiu"
            and self.precision in ("float32", "bf16")
            and self.answers in ("classes", "yes or no", "numbers")
            and (self.classes is not None) == (self.answers == "classes")
            and (self.classes is None or type(self.classes) is int)
            and (self.mean is None) == (self.std is None)
            and (self.class_names is None or len(self.class_names) == self.classes)
        )
        if not good:
            raise ValueError


def find_model_shape(task: Task, data: Arrays) -> Shape:
    """The shape of an example as a task's network sees it: a user's own may get series."""
    return data.shape if MODELS.kind_of(task.model) in MODELS.table else data.own_shape


def find_scaling(task: Task, data: Arrays) -> Scaling:
    """How a task's examples are scaled; a user's own rule may raise anything."""
    try:
        with Guard("its examples cannot be scaled", DataError, part=task.normalize, always=True):
            return task.normalize.scaling(data)
    except MmflError as error:
        raise add_prefix(error, f"task {task.name!r}: ") from error.__cause__


def describe_model(
    experiment: Experiment, task: Task, data: Arrays, scaling: Scaling
) -> ModelDescription:
    """How a task's model is built and used.

    Args:
        experiment: The experiment, resolved.
        task: One of its tasks.
        data: The task's data.
        scaling: That of `find_scaling`.
    """
    mean, std = (None, None) if scaling is None else (tuple(p.ravel().tolist()) for p in scaling)
    shape = find_model_shape(task, data)
    answers: Answers = "numbers"
    if data.classes is not None:
        answers = "classes"
    elif isinstance(task.loss, BinaryCrossEntropy):
        answers = "yes or no"
    return ModelDescription(
        task=task.name,
        model=dump(task)["model"],
        shape=tuple(shape),
        vocabulary=shape.vocabulary,
        places=shape.places,
        outputs=data.outputs,
        example=data.x_train.shape[1:],
        dtype=str(data.x_train.dtype),
        mean=mean,
        std=std,
        features=data.features,
        target=data.y_train.shape[1:],
        answers=answers,
        classes=data.classes,
        class_names=data.class_names,
        precision=experiment.precision,
        batch_size=experiment.evaluate.batch_size,
    )


def _check_sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(one) is int and one > 0 for one in values):
        raise ValueError
    return tuple(values)


def _check_names(values: Any) -> ClassNames:
    if not isinstance(values, list) or not all(isinstance(one, str | int) for one in values):
        raise ValueError
    return tuple(values)
