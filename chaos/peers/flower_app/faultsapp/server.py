"""The server: four rounds of Flower's FedAvg, with notes for the watching process."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

__all__ = ["app"]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run, and note each start, round and reply that failed."""
    notes = Path(str(context.run_config["notes"]))

    def note(**told: Any) -> None:
        with notes.open("a") as file:
            file.write(json.dumps(told | {"time": time.time()}) + "\n")

    class Errors(logging.Handler):
        """Keeps what the strategy logs of replies."""

        def emit(self, record: logging.LogRecord) -> None:
            if "Received" in (line := record.getMessage().strip()):
                note(event="replies", line=line.partition(" from node ")[0], whole=line)

    def round_ended(server_round: int, arrays: ArrayRecord) -> None:
        context.state["progress"] = MetricRecord({"round": server_round})
        note(event="round", round=server_round, first=float(arrays["w"].numpy()[0]))

    note(event="started", pid=os.getpid(), run=str(context.run_id), state=sorted(context.state))
    logging.getLogger("flwr").addHandler(Errors())
    FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3).start(
        grid=grid,
        initial_arrays=ArrayRecord({"w": Array(np.zeros(3, np.float32))}),
        num_rounds=4,
        train_config=ConfigRecord({"kind": context.run_config["kind"]}),
        evaluate_fn=round_ended,
    )
    note(event="finished")
