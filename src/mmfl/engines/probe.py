"""A probe of the kernels in use: the beginning of a round, to compare the bits of two machines.

Each task trains the first clients that have data for it for two steps, from the weights that its
model begins with, and evaluates a piece of its test split. The answer is a hash of all results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mmfl.engines.units import Unit
from mmfl.exchange import CHUNK, Address, Job
from mmfl.system.child import Message

if TYPE_CHECKING:
    from mmfl.experiment import Experiment, Federation

__all__ = ["describe_difference", "write_probe"]

_STEPS = 2
_MANY = 1000
"""Of so many clients, the first that have data are asked."""


def write_probe(experiment: Experiment, federation: Federation, number: int) -> Message:
    """The request; see `mmfl.engines.handler`."""
    clients = np.asarray(federation.clients[:_MANY], dtype=np.int64)
    held = federation.sizes(clients)
    units = []
    for task, column in zip(federation.tasks, held.T, strict=True):
        work = replace(experiment.work(task, 0), epochs=None, steps=_STEPS)
        jobs = [
            Job(Address("", 0, task, client, 0), experiment.seed, work)
            for client in clients[column > 0][:CHUNK].tolist()
        ]
        if jobs:
            units.append(Unit(jobs, merge=True).request(None))
    return {"do": "probe", "probe": number, "units": units}


def describe_difference(one: Message, other: Message) -> str | None:
    """What two machines compute with, where they differ; None if they give the same bits."""
    if one["bits"] == other["bits"]:
        return None
    with_one, with_other = one["numerics"], other["numerics"]
    names = sorted({*with_one, *with_other})
    return ", ".join(
        f"{name}: {with_one.get(name)} and {with_other.get(name)}"
        for name in names
        if with_one.get(name) != with_other.get(name)
    )
