"""Ten people's smartwatches train two models at once: which exercise is it, and on which arm?

The wearables of the paper's introduction, with real recordings: seglearn's 140 series of 6 channels
(acceleration and rotation), in which 10 people do 7 shoulder exercises with either arm (Burns et
al., arXiv:1802.01489). A person is a client, and each model sees windows of 2 seconds. The test is
the last quarter of every recording, so it measures how well a model knows the same people later.

    pip install -e '.[examples]'
    python examples/wearables.py                  # half a minute on 2 cores; stored in runs/

Results (2026-11-15, that command: seeds 0 to 4, 50 rounds, 4 of 10 watches in a round):

                exercise          arm         mean    turns exercise : arm
    uniform    .808 ±.013   .992 ±.004   .900 ±.007           515 : 485
    fed_fair   .831 ±.022   .978 ±.009   .905 ±.010           936 : 64

The arm is learnt in a few turns, so the fair rule lends its watches to the harder model: the worst
task gains .023, in 4 of 5 seeds (95% interval -.006 to +.052: five seeds do not settle it), and the
easy one pays .014 for it, as it now trains in every fifth round only.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from seglearn.datasets import load_watch

import mmfl
from driver import show
from mmfl.allocate import Uniform

WINDOW = 100  # 2 seconds at 50 Hz


def windows(label: str) -> dict[str, Any]:
    """Each recording in windows that do not overlap; its last quarter is for the test."""
    watch = load_watch()
    xs, ys, people, late = [], [], [], []
    for series, y, person in zip(watch["X"], watch[label], watch["subject"], strict=True):
        n = len(series) // WINDOW
        xs.append(series[: n * WINDOW].reshape(n, -1))  # 100 moments x 6 channels = 600 features
        ys.append(np.full(n, y, int))
        people.append(np.full(n, person - 1))
        late.append(np.arange(n) >= 0.75 * n)
    x, y, who, test = map(np.concatenate, (xs, ys, people, late))
    train = ~test
    parts = {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}
    return parts | {"groups": who[train]}  # one client per person


def experiment(rounds: int) -> mmfl.Experiment:
    """Two dense networks on the same windows; four of the ten watches are free in a round."""
    common: dict[str, Any] = {"partition": "by_group", "normalize": "standard"}
    common |= {"model": {"kind": "mlp", "hidden": [64]}}
    return mmfl.Experiment.from_dict(
        {
            "rounds": rounds,
            "clients": {"count": 10, "active": 0.4},
            "local": {"epochs": 1, "batch_size": 16, "lr": 0.02},
            "allocator": {"kind": "fed_fair", "alpha": 3.0},
            "tasks": [
                {"name": "exercise", "dataset": {"kind": windows, "label": "y"}, **common},
                {"name": "arm", "dataset": {"kind": windows, "label": "side"}, **common},
            ],
        }
    )


def make_variants(rounds: int) -> dict[str, mmfl.Experiment]:
    """The same experiment with two rules."""
    fair = experiment(rounds)
    return {"uniform": replace(fair, allocator=Uniform()), "fed_fair": fair}


if __name__ == "__main__":
    show("wearables", make_variants, rounds=50, seeds=5)
