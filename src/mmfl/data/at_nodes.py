"""Data that is only at the nodes of a federation: the server knows its shape and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mmfl.config import Count, component
from mmfl.data.arrays import Arrays
from mmfl.errors import DataError

__all__ = ["AtNodes", "make_blank"]

_TYPES = {"real": "float32", "bytes": "uint8", "whole": "int64"}


@component
class AtNodes:
    """Data that nodes of a Flower federation have themselves; the server has none.

    It needs the engine "flower" and `score_source = "clients"`. Each node holds back some of its
    examples for the test.

    Attributes:
        shape: The shape of one example.
        classes: The number of classes; by default targets are real numbers.
        type: "real" numbers, "bytes" (of images) or "whole" numbers (such as tokens).
        vocabulary: How many tokens there are, with type "whole".
        targets: How many real numbers an example's target has.
    """

    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=4)]
    classes: Annotated[Count, Field(ge=2)] | None = None
    type: Literal["real", "bytes", "whole"] = "real"
    vocabulary: Count | None = None
    targets: Count = 1

    def load(self, data_dir: Path | None) -> Arrays:
        """Refuse: there is nothing to load."""
        raise DataError(
            'its data is at the nodes of a federation; run it with "mmfl flower up" or "flwr run"'
        )

    def blank(self) -> Arrays:
        """Examples of zeros: enough to build a model for such data."""
        return make_blank(
            self.shape, _TYPES[self.type], self.classes, self.vocabulary, self.targets
        )


def make_blank(
    shape: tuple[int, ...],
    dtype: str,
    classes: int | None,
    vocabulary: int | None,
    targets: int = 1,
) -> Arrays:
    """One example of zeros for each class, or two."""
    count = max(classes or 2, 2)
    x = np.zeros((count, *shape), dtype)
    if vocabulary is not None:
        x.reshape(-1)[0] = vocabulary - 1
    y = np.arange(count) if classes is not None else np.zeros((count, targets), np.float32)
    return Arrays.check("no data", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
