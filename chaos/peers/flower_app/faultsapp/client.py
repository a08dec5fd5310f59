"""The client: adds one, or kills its own process in round 2."""

from __future__ import annotations

import os

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

__all__ = ["app"]

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One step of "training"."""
    config = message.content.config_records["config"]
    bad = config["kind"] == "client process killed" and context.node_config["partition-id"] == 0
    if bad and config["server-round"] == 2:
        os._exit(1)
    raised = message.content.array_records["arrays"]["w"].numpy() + 1
    content = {
        "arrays": ArrayRecord({"w": Array(raised)}),
        "metrics": MetricRecord({"num-examples": 1}),
    }
    return Message(RecordDict(content), reply_to=message)
