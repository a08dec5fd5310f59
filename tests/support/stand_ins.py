"""Small generated tables with the columns of the real ones that the examples train on."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["TABLES", "star"]


def star(pupils: int = 400, schools: int = 80) -> pd.DataFrame:
    """Project STAR: a row for each pupil and year; every school, some values missing."""
    rng = np.random.default_rng(0)
    rows = []
    for pupil in range(pupils):
        first, last = sorted(rng.integers(0, 4, size=2))
        talent = rng.normal()
        for year in range(first, last + 1):
            rows.append(
                {
                    "id": 100_000 + pupil,
                    "sch": 1 + pupil % schools,
                    "gr": "K123"[year],
                    "cltype": rng.choice(["small", "reg", "reg+A"]),
                    "hdeg": rng.choice(["BS/BA", "MS/MA/MEd"]),
                    "exp": rng.choice([3.0, 12.0, np.nan]),
                    "trace": rng.choice(["W", "B"]),
                    "read": 500 + 40 * talent if pupil % 50 else np.nan,
                    "math": 500 + 40 * talent + rng.normal(),
                    "ses": rng.choice(["F", "N"]),
                    "schtype": rng.choice(["inner", "rural", "suburb", "urban"]),
                    "sx": rng.choice(["F", "M"]),
                    "eth": rng.choice(["W", "B"]),
                    "birthy": rng.choice([1979.0, 1980.0, np.nan]),
                }
            )
    return pd.DataFrame(rows)


TABLES = {("mlmRev", "star"): star}
"""By R package and name."""
