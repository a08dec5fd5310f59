"""Four architectures on the same data: which one should be deployed?

The third use in the paper's introduction. The paper argues for fairness here too, since nobody
knows the best model before all are trained. But in the end only the best one counts, and turns for
a hopeless model are lost. `Halving` below is the other view, written as a custom allocator.

    python examples/architectures.py              # a minute on 2 cores; stored in runs/

Results (2026-11-15, that command: seeds 0 to 2, 30 rounds, 8 of 20 clients in a round):

                    narrow   wide    cnn  resnet    best model, by seed
    uniform           .736   .778   .729    .597    wide .761    wide .767  wide .805
    fed_fair          .718   .733   .705    .622    narrow .719  wide .768  narrow .732
    halving           .671   .792   .719    .491    narrow .771  wide .810  wide .795
    each one alone    .768   .806   .794    .651    (all turns, `tasks=(fair.task(name),)`)

The fair rule spends 44% of the turns on the slow resnet and lifts it by .025, but the model that
you would deploy loses .038, and in 2 of 3 seeds it is the wrong one. Halving's best is .014 above
uniform's, with one wrong choice: the wide net left at the second cut. With three seeds neither
difference is certain (95% intervals -.129 to +.053 and -.053 to +.081; a first trial, one seed with
a third of the training, had the fair rule's best above uniform's). To choose a model, share evenly
or race; be fair to models that will all be used.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mmfl
from driver import show
from mmfl.allocate import Assignments, Uniform, View
from mmfl.report.statistics import Quantity
from mmfl.rng import Stream


@dataclass(frozen=True)
class Halving:
    """Share clients evenly among the remaining models; drop the worse half twice.

    Successive halving: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and
    Hyperparameter Optimization", AISTATS 2016.
    """

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """The state is the list of task numbers still in the race."""
        alive = list(range(len(view.tasks))) if state is None else state
        stage = 3 * (view.round - 1) // view.rounds  # 0, 1, 2: thirds of the run
        keep = -(-len(view.tasks) // 2**stage)
        alive = sorted(alive, key=lambda task: view.difficulty[task])[:keep]
        racing = view.eligible & np.isin(np.arange(len(view.tasks)), alive)
        return Uniform().allocate(replace(view, eligible=racing), None, rng=rng)[0], alive


def experiment(rounds: int) -> mmfl.Experiment:
    """20 clients with 60 to 120 images each; eight of them are active in a round."""
    models = {
        "narrow": {"kind": "mlp", "hidden": [8]},
        "wide": {"kind": "mlp", "hidden": [128]},
        "cnn": {"kind": "cnn", "channels": [8, 16], "dense": 64},
        "resnet": {"kind": "preact_resnet", "width": 8, "blocks": [1, 1]},
    }
    partition = {"kind": "iid", "points": [60, 120]}
    common = {"dataset": "fashion_mnist_small", "partition": partition}
    return mmfl.Experiment.from_dict(
        {
            "rounds": rounds,
            "clients": {"count": 20, "active": 0.4},
            "local": {"epochs": 2, "batch_size": 16, "lr": 0.02},
            "validation": 0.05,
            "evaluate": {"every": rounds},
            "allocator": {"kind": "fed_fair", "alpha": 3.0},
            "tasks": [{"name": name, "model": model, **common} for name, model in models.items()],
        }
    )


BEST = Quantity("best", "higher", lambda run: float(run.merit[-1].max()))


def make_variants(rounds: int) -> dict[str, mmfl.Experiment]:
    """The same experiment with three rules."""
    fair = experiment(rounds)
    return {
        "uniform": replace(fair, allocator=Uniform()),
        "fed_fair": fair,
        "halving": replace(fair, allocator=Halving()),
    }


if __name__ == "__main__":
    show("architectures", make_variants, rounds=30, seeds=3, only=[BEST])
