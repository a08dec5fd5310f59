"""The client of `flower.py`.

It is a separate module, so that Ray sends it to the actors by name. What is sent by value is loaded
again for every message, without its caches.
"""

from __future__ import annotations

import contextlib
import functools
from typing import cast

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from measuring import examples
from torch import nn
from workloads import WORKLOADS

app = ClientApp()


@functools.cache
def _model(name: str, threads: int) -> nn.Module:
    """The network, built once per actor; every client overwrites its parameters."""
    torch.set_num_threads(threads)
    return WORKLOADS[name].build()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train with plain SGD on the client's own examples, shuffled in each epoch."""
    config = message.content.config_records["config"]
    workload = WORKLOADS[cast(str, config["workload"])]
    model = _model(workload.name, cast(int, config["threads"]))
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())

    first = int(context.node_config["partition-id"]) * workload.examples
    images, labels = examples(workload.name)
    x, y = images[first : first + workload.examples], labels[first : first + workload.examples]

    half = config["precision"] == "bf16"
    optimizer = torch.optim.SGD(model.parameters(), lr=workload.lr)
    for _ in range(workload.epochs):
        for batch in torch.randperm(workload.examples).split(workload.batch_size):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()

    reply = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": workload.examples}),
        }
    )
    return Message(content=reply, reply_to=message)
