"""Small generated tables with the columns of the real ones that the examples train on."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["TABLES", "rand_hie", "star"]


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


def rand_hie(people: int = 120, years: int = 2) -> pd.DataFrame:
    """The RAND Health Insurance Experiment: a row for each person and year, at six sites."""
    rng = np.random.default_rng(0)
    rows = people * years
    spending = np.exp(rng.normal(3, 2, rows)) * (rng.random(rows) < 0.8)
    table = {
        "zper": np.repeat(125_000 + np.arange(people), years),
        "year": np.tile(1 + np.arange(years), people),
        "site": np.repeat(1 + np.arange(people) % 6, years),
        "meddol": spending,
        "mdvis": rng.poisson(np.log1p(spending)),
        "totadm": (spending > 100).astype(int),
        "coins": rng.choice([0, 25, 100], rows),
        "educdec": rng.choice([8.0, 12.0, 16.0, np.nan], rows, p=[0.3, 0.3, 0.3, 0.1]),
    }
    yes_or_no = ("idp", "black", "female", "fchild", "physlm", "hlthg", "hlthf", "hlthp")
    table |= {name: rng.integers(0, 2, rows) for name in yes_or_no}
    numbers = ("mdeoff", "linc", "xage", "lfam", "mhi", "disea")
    table |= {name: rng.normal(size=rows) for name in numbers}
    return pd.DataFrame(table)


TABLES = {("mlmRev", "star"): star, ("sampleSelection", "RandHIE"): rand_hie}
"""By R package and name."""
