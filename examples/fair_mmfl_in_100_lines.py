"""Algorithm 1 of "Fair Concurrent Training of Multiple Models in Federated Learning" (Siew et al.).

FedFairMMFL in plain loops, with nothing of mmfl but its random streams. Three models of different
difficulty share 30 clients, 12 of which are active in a round. Compare:

    python examples/fair_mmfl_in_100_lines.py            # alpha = 3: fair
    python examples/fair_mmfl_in_100_lines.py 1          # alpha = 1: uniform
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mmfl.rng import stream

SEED, T, K, C, EPOCHS, BATCH, LR = 0, 30, 30, 0.4, 2, 16, 0.02
Weights = dict[str, Tensor]


@dataclass
class Task:
    """A model, each client's data D_k, and the server's test data."""

    name: str
    model: nn.Module
    shards: list[tuple[Tensor, Tensor]]
    test: tuple[Tensor, Tensor]


def make_task(name: str, classes: int, noise: float) -> Task:
    """Clouds of points around one random centre per class; 20 to 60 examples for each client."""
    rng = stream(SEED, "data", name)
    centres = rng.standard_normal((classes, 20))

    def draw(size: int) -> tuple[Tensor, Tensor]:
        y = rng.integers(classes, size=size)
        x = torch.tensor(centres[y] + noise * rng.standard_normal((size, 20)))
        return x.float(), torch.tensor(y)

    torch.manual_seed(stream(SEED, "initial", name).torch_seed())
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, classes))
    return Task(name, model, [draw(int(n)) for n in rng.integers(20, 61, size=K)], draw(1000))


def local_training(task: Task, w: Weights, k: int, t: int) -> Weights:
    """Lines 8-9: tau steps of SGD on client k's data, from the server's weights."""
    task.model.load_state_dict(w)
    (x, y), rng = task.shards[k], stream(SEED, "train", t, task.name, k)
    optimizer = torch.optim.SGD(task.model.parameters(), LR, momentum=0.9)
    for _ in range(EPOCHS):
        for batch in torch.tensor(rng.permutation(len(y))).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(task.model(x[batch]), y[batch]).backward()
            optimizer.step()
    return {name: tensor.clone() for name, tensor in task.model.state_dict().items()}


def accuracy(task: Task, w: Weights) -> float:
    """The share of the server's test data that the model gets right."""
    task.model.load_state_dict(w)
    with torch.no_grad():
        x, y = task.test
        return float((task.model(x).argmax(1) == y).float().mean())


def fed_fair_mmfl(tasks: list[Task], alpha: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Algorithm 1. Yields, round by round, each task's accuracy and its number of clients."""
    w = [{n: v.clone() for n, v in task.model.state_dict().items()} for task in tasks]  # line 1
    f = np.ones(len(tasks))  # nothing is known yet: the first allocation is uniform
    for t in range(1, T + 1):  # line 2
        active = stream(SEED, "active", t).choice(K, round(C * K), replace=False)  # line 3
        p = f ** (alpha - 1) / (f ** (alpha - 1)).sum()  # lines 4-5
        choice = stream(SEED, "allocate", t).choice(len(tasks), size=len(active), p=p)
        for s, task in enumerate(tasks):
            selected = active[choice == s]  # Sel_s(t)
            local = [local_training(task, w[s], int(k), t) for k in selected]  # lines 6-11
            sizes = np.array([len(task.shards[k][1]) for k in selected])
            if local:  # lines 12-13: the mean weighted by data size
                w[s] = {
                    n: sum(float(size) * one[n] for size, one in zip(sizes, local, strict=True))
                    / float(sizes.sum())
                    for n in w[s]
                }
            f[s] = 1 - accuracy(task, w[s])  # line 14
        yield 1 - f, np.bincount(choice, minlength=len(tasks))


if __name__ == "__main__":
    torch.set_num_threads(1)  # more threads do not help such small models
    alpha = float(sys.argv[1] if sys.argv[1:] else 3)
    tasks = [make_task("easy", 3, 0.8), make_task("medium", 6, 1.3), make_task("hard", 12, 1.6)]
    for t, (scores, clients) in enumerate(fed_fair_mmfl(tasks, alpha), start=1):
        rows = zip(tasks, scores, clients, strict=True)
        print(f"round {t:2}", *(f"{task.name} {a:.3f} ({n:2} clients) " for task, a, n in rows))
    print(f"alpha {alpha:g}: worst {scores.min():.3f}, mean {scores.mean():.3f}")
