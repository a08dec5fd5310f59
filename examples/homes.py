r"""Seventeen homes train two models: their electric load, and what their solar panels generate.

The clients are single-family homes in Fontana, California, that were metered every hour for a year
(the data of the CityLearn challenge 2022). Both models read the last 24 hours: load, solar
generation, temperature, sunshine, and the time of day. They predict the next hour (R^2). The load
is in kWh, the generation in kW per kW of panels. Every fifth week is the test.

    pip install --no-deps citylearn==1.8.0  # 15 MB, MIT; later versions have no data
    mmfl compare examples/homes.toml --allow-imports --seeds 0-9 \
        --vary allocator.kind=fed_fair,uniform,round_robin

Results (2026-11-19, that command: seeds 0 to 9, 40 rounds, 4 of 17 homes in a round):

                        load        solar         mean    turns
    fed_fair      .562 ±.006   .851 ±.017   .706 ±.008   1203 : 397
    uniform       .524 ±.072   .857 ±.070   .691 ±.044    798 : 802
    round_robin   .527 ±.045   .893 ±.009   .710 ±.023    787 : 813

Here fairness helps the worst task: the load gains .035 over round robin, in 9 of 10 seeds (95%
interval .005 to .066), and solar pays .042 (.027 to .058). Against uniform allocation, the gain of
.038 is not certain (-.013 to .088, 8 of 10 seeds). The load is not learnt faster; it is spared bad
rounds. Where a single home trains a model in a round, its update replaces the model: so uniform
ends seed 4 with a load of .33 and seed 5 with a solar of .67, round robin seed 8 with a load of
.41. The fair rule gives three of four homes to the load. A linear model on the pooled hours gets
.63 and .95, so neither model is done.
"""

from typing import Any

import numpy as np
import pandas as pd

from driver import find_package

LOAD, SUN = "Equipment Electric Power [kWh]", "Solar Generation [W/kW]"
FOLDER = "data/citylearn_challenge_2022_phase_all"
HOURS = 24  # what a model sees
EVERY = 3  # hours between examples


def hours(target: str) -> dict[str, Any]:
    """The next hour's load or solar generation from the day before; every fifth week is a test."""
    folder = find_package("citylearn", "citylearn==1.8.0") / FOLDER
    weather = pd.read_csv(folder / "weather.csv")
    sky = weather[["Outdoor Drybulb Temperature [C]", "Direct Solar Radiation [W/m2]"]]
    clients, tests = [], []
    for home in range(17):
        table = pd.read_csv(folder / f"Building_{home + 1}.csv")
        x, y, test = windows(table, sky.to_numpy(), LOAD if target == "load" else SUN)
        clients.append((x[~test], y[~test]))
        tests.append((x[test], y[test]))
    x, y = (np.concatenate(part) for part in zip(*tests, strict=True))
    return {"clients": clients, "x_test": x, "y_test": y}


def windows(table: pd.DataFrame, sky: Any, target: str) -> tuple[Any, Any, Any]:
    """Days of a home's measurements, what comes next, and whether it is in a fifth week."""
    clock = 2 * np.pi * table["Hour"].to_numpy() / 24
    columns = [table[LOAD], table[SUN] / 1000, np.sin(clock), np.cos(clock), *(sky / [30, 1000]).T]
    series = np.stack(columns, axis=1).astype(np.float32)
    x = np.lib.stride_tricks.sliding_window_view(series, HOURS, axis=0).swapaxes(1, 2)[:-1:EVERY]
    y = series[HOURS:, 0 if target == LOAD else 1][::EVERY]
    week = np.arange(HOURS, len(series), EVERY) // (7 * 24)
    return x, y, week % 5 == 4
