"""A named data set made smaller, or harder: fewer pixels, fewer examples, wrong labels.

It keeps an experiment's structure while it trains in a fraction of the time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from mmfl.config import WRITE_IF_SET, Chance, Count, Text, component
from mmfl.data.arrays import Arrays
from mmfl.errors import DataError
from mmfl.rng import stream

if TYPE_CHECKING:
    from mmfl.data.datasets import Named

__all__ = ["Reduced"]

_BATCH = 4096
"""Images that are shrunk at a time, so that their sums take little memory."""


@component
class Reduced:
    """A named data set with smaller images, fewer examples or wrong labels.

    Examples are chosen once, at random, by the name of the data set and the split. The choice does
    not depend on the experiment's seed, and a smaller choice is part of a larger one.

    Attributes:
        name: The data set, as in `dataset = "mnist"`.
        shrink: Width of the squares of pixels that become one pixel, their mean; 1 keeps images as
            they are. Rows and columns that do not fill a square are cut off.
        train: How many training examples to keep; by default all.
        test: How many test examples to keep; by default all.
        noise: The share of the training examples whose class is drawn at random from all classes.
            The server's validation data are training examples, too. Test data are left as they are.
    """

    name: Text
    shrink: Count = 1
    train: Count | None = None
    test: Count | None = None
    noise: Annotated[Chance, WRITE_IF_SET] = 0.0

    def find_file(self, data_dir: str | Path | None) -> Path:
        """Where the complete data set is, or would be."""
        return self._whole().find_file(data_dir)

    def bytes_needed(self, data_dir: Path | None) -> int:
        """What the complete data set takes in memory; 0 = not known."""
        return self._whole().bytes_needed(data_dir)

    def load(self, data_dir: Path | None) -> Arrays:
        """Read the data set, choose examples, shrink images."""
        whole = self._whole().load(data_dir)
        train = self._choose("train", len(whole.y_train), self.train)
        test = self._choose("test", len(whole.y_test), self.test)
        return replace(
            whole,
            x_train=self._shrink(whole.x_train[train]),
            y_train=self._spoil(whole.y_train, whole.classes)[train],
            x_test=self._shrink(whole.x_test[test]),
            y_test=whole.y_test[test],
            groups=None if whole.groups is None else whole.groups[train],
        )

    def _whole(self) -> Named:
        from mmfl.data.datasets import Named  # which has this class in its table of kinds

        return Named(self.name)

    def _choose(self, split: str, available: int, wanted: int | None) -> npt.NDArray[np.int64]:
        """Row numbers of the examples to keep, ascending."""
        if wanted is None:
            return np.arange(available)
        if wanted > available:
            raise DataError(
                f"data set {self.name!r} has {available:,} {split} examples, but {split} = {wanted}"
            )
        order = stream(0, "reduced", self.name, split).permutation(available)
        return np.sort(order[:wanted])

    def _spoil(self, labels: npt.NDArray[Any], classes: int | None) -> npt.NDArray[Any]:
        """The labels of all training examples, some of them drawn at random."""
        if not self.noise:
            return labels
        if classes is None:
            raise DataError(f"data set {self.name!r}: noise is for classes, not for real targets")
        rng = stream(0, "reduced", self.name, "noise")
        wrong = rng.permutation(len(labels))[: round(self.noise * len(labels))]
        spoilt = labels.copy()
        spoilt[wrong] = rng.integers(classes, size=(len(wrong), *labels.shape[1:]))
        return spoilt

    def _shrink(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The mean of each square of pixels; of bytes, rounded."""
        side = self.shrink
        if side == 1:
            return images
        if images.ndim not in (3, 4) or images.dtype.kind not in "uf":
            shape = " x ".join(map(str, images.shape[1:]))
            raise DataError(
                f"data set {self.name!r}: shrink is for images of bytes or real numbers, got "
                f"examples of shape {shape} and type {images.dtype}"
            )
        height, width = images.shape[1] // side, images.shape[2] // side
        if not height or not width:
            raise DataError(
                f"data set {self.name!r}: shrink must be at most {min(images.shape[1:3])}, the "
                f"size of its images, got {side}"
            )
        small = np.empty((len(images), height, width, *images.shape[3:]), images.dtype)
        for start in range(0, len(images), _BATCH):
            batch = images[start : start + _BATCH, : height * side, : width * side]
            squares = batch.reshape(len(batch), height, side, width, side, *images.shape[3:])
            mean = squares.mean(axis=(2, 4), dtype=np.float64)
            small[start : start + _BATCH] = mean.round() if images.dtype.kind == "u" else mean
        return small
