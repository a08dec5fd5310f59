"""What the examples share: their options, the comparison, and the tables they print."""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console

import mmfl
from mmfl.report import Differences, Results, variants
from mmfl.report.statistics import OVERALL, Quantity


def show(
    name: str,
    experiments: Callable[[int], dict[str, mmfl.Experiment]],
    *,
    rounds: int,
    seeds: int,
    quantities: Sequence[Quantity] = OVERALL,
) -> None:
    """Compare experiments over seeds, and print the results and each task's number of turns.

    Args:
        name: The runs are stored in runs/NAME-ROUNDS-rounds.
        experiments: From a number of rounds to the experiments by name; the first is the baseline.
        rounds: Unless --rounds says otherwise.
        seeds: How many, unless --seeds says otherwise.
        quantities: What differences are shown of; by default worst, mean, variance and fairness.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seeds", type=int, default=seeds)
    given = parser.parse_args()
    folder = f"runs/{name}-{given.rounds}-rounds"
    compared = variants(mmfl.compare(experiments(given.rounds), range(given.seeds), folder))
    Console(highlight=False).print(Results(compared), Differences(compared, quantities))
    for variant in compared:
        turns = np.sum([run.turns for run in variant.runs.values()], axis=0)
        print(f"{variant.name}: turns", dict(zip(variant.tasks, turns.tolist(), strict=True)))
