"""The ServerApp: a stored run whose engine is the federation.

Its run configuration (``flwr run --run-config``):

    experiment = "/path/fair.toml"   a file on the server
    out = "/path/runs/fair"          the run directory; a run that is there is resumed
    data-dir = "/data"               folder of npz files
    allow-imports = true             whether the experiment may name code
    events = "/path"                 where to write what happens, for `mmfl flower up`
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from mmfl.engines.flower import FlowerEngine
from mmfl.errors import MmflError
from mmfl.experiment import Experiment, Flower
from mmfl.flower.events import EventWriter
from mmfl.runs import Run, stored_rounds

__all__ = ["app"]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment, or resume it."""
    config = context.run_config
    writer = EventWriter(str(config.get("events", "")))
    writer.tell("process", pid=os.getpid())
    with warnings.catch_warnings():
        warnings.showwarning = writer.show_warning
        try:
            run_experiment(grid, config, writer)
        except MmflError as error:
            writer.tell("error", said=str(error))
            raise
        except BaseException as error:
            writer.tell("error", said=f"{type(error).__name__}: {error}")
            raise


def run_experiment(grid: Grid, config: Any, writer: EventWriter) -> Run:
    """Run the experiment that a run configuration names; returns the stored run."""
    allow = bool(config.get("allow-imports", False))
    experiment = Experiment.load(str(config["experiment"]), allow_imports=allow)
    settings = experiment.engine if isinstance(experiment.engine, Flower) else Flower()
    experiment = dataclasses.replace(experiment, engine=settings)
    folder = str(config.get("data-dir", ""))
    data_dir = Path(folder) if folder else None
    out = Path(str(config.get("out", "") or "runs/flower"))
    engine = FlowerEngine(experiment, data_dir, grid, settings)
    stored = stored_rounds(experiment, out, data_dir=data_dir, engine=engine, resume=True)
    with stored:
        stored.start()
        writer.tell("start", folder=str(stored.folder.absolute()), after=stored.after)
        for _, record in stored:
            writer.tell_round(record)
    run = Run.load(stored.folder)
    writer.tell("end", fingerprint=run.fingerprint)
    return run
