"""A regression task that is drawn, not read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from mmfl.config import Chance, Count, Natural, component
from mmfl.data.arrays import Arrays
from mmfl.rng import stream

__all__ = ["SyntheticRegression"]


@component
class SyntheticRegression:
    """Real numbers that a random network of one layer computes, plus noise.

    Features are standard normal. Targets have mean 0 and variance 1 over the training data.

    Attributes:
        features: The number of features.
        units: Units of the network. More units make the function harder to learn.
        train: Training examples.
        test: Test examples.
        noise: The share of the targets' variance that is noise. No model can get an R^2 above 1
            minus this share.
        seed: Seed of the data. It does not depend on the experiment's seed.
    """

    features: Count = 8
    units: Count = 16
    train: Annotated[Count, Field(ge=2)] = 2000
    test: Count = 500
    noise: Chance = 0.1
    seed: Natural = 0

    def bytes_needed(self, data_dir: Path | None) -> int:
        """The least memory that it needs."""
        return 8 * (self.train + self.test) * (self.features + self.units)

    def load(self, data_dir: Path | None) -> Arrays:
        """Draw it."""
        rng = stream(self.seed, "synthetic regression")
        inner = rng.standard_normal((self.features, self.units)) * 2 / np.sqrt(self.features)
        offset, outer = rng.standard_normal(self.units), rng.standard_normal(self.units)
        x = rng.standard_normal((self.train + self.test, self.features))
        clean = np.tanh(x @ inner + offset) @ outer
        noise = rng.standard_normal(len(x))
        known = clean[: self.train]
        y = np.sqrt(1 - self.noise) * (clean - known.mean()) / (known.std() or 1.0)
        y += np.sqrt(self.noise) * noise
        x_train, x_test = np.split(x.astype(np.float32), [self.train])
        y_train, y_test = np.split(y.astype(np.float32), [self.train])
        return Arrays(x_train, y_train, x_test, y_test, None)
