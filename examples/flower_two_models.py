"""A Flower app of your own with two models: mmfl only says which node trains which.

Models, training and averaging are this file's (NumPy), the messages are Flower's. `choose_models`
is all that asks mmfl. Run it as a Flower app, with `serverapp = "flower_two_models:server"` and
`clientapp = "flower_two_models:client"`; see docs/how-to/allocate-in-your-own-app.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from mmfl.allocate import assign

Weights = npt.NDArray[np.float64]
NAMES = ("easy", "hard")
NOISE = {"easy": 1.0, "hard": 4.0}
CENTRES = np.random.default_rng(0).normal(size=(4, 8))

server, client = ServerApp(), ClientApp()


def choose_models(
    nodes: list[int], difficulty: list[float] | None, server_round: int
) -> dict[int, str]:
    """From node to the model that it trains in this round: fair allocation, by difficulty."""
    nodes = sorted(nodes)
    turns = assign(difficulty, range(len(nodes)), tasks=len(NAMES), round=server_round, seed=0)
    return {nodes[place]: NAMES[task] for place, task, _ in turns}


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Five rounds; each model is averaged over the nodes that trained it."""
    models = {name: np.zeros((8, 4)) for name in NAMES}
    difficulty = None
    for server_round in range(1, 6):
        chosen = choose_models(list(grid.get_node_ids()), difficulty, server_round)
        messages = [
            Message(
                RecordDict({"model": _record(models[name]), "told": ConfigRecord({"name": name})}),
                node,
                "train",
                group_id=str(server_round),
            )
            for node, name in chosen.items()
        ]
        replies = [r for r in grid.send_and_receive(messages, timeout=60) if r.has_content()]
        for name in NAMES:
            sent = [r for r in replies if chosen.get(r.metadata.src_node_id) == name]
            if sent:
                models[name] = np.mean([_weights(reply.content) for reply in sent], axis=0)
        difficulty = [1 - accuracy(name, models[name]) for name in NAMES]
        print(f"round {server_round}", chosen, dict(zip(NAMES, difficulty, strict=True)))


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that was sent on this node's examples."""
    name = str(message.content.config_records["told"]["name"])
    x, y = _draw(name, int(context.node_config["partition-id"]), 60)
    weights = _weights(message.content)
    for rows in np.random.default_rng(0).permutation(60).reshape(-1, 20):
        weights = weights - 0.1 * x[rows].T @ (_chances(weights, x[rows]) - np.eye(4)[y[rows]]) / 20
    return Message(RecordDict({"model": _record(weights)}), reply_to=message)


def accuracy(name: str, weights: Weights) -> float:
    """Of a model, on the server's own examples."""
    x, y = _draw(name, 1000, 400)
    return float((_chances(weights, x).argmax(axis=1) == y).mean())


def _draw(name: str, owner: int, count: int) -> tuple[Weights, npt.NDArray[np.int64]]:
    random = np.random.default_rng([owner, NAMES.index(name)])
    y = random.integers(4, size=count)
    return CENTRES[y] + NOISE[name] * random.normal(size=(count, 8)), y


def _chances(weights: Weights, x: Weights) -> Weights:
    raised = np.exp(x @ weights - (x @ weights).max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _record(weights: Weights) -> ArrayRecord:
    return ArrayRecord({"weights": Array(weights)})


def _weights(content: RecordDict) -> Weights:
    return np.asarray(content.array_records["model"]["weights"].numpy())
