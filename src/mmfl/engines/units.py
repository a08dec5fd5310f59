"""Units: what a worker gets at a time, one job or a whole chunk of jobs whose updates it sums.

How jobs are cut into units does not affect the sums: a chunk's updates are added in the order of
its jobs, wherever they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.engines.shared_memory.slots import Slot
from mmfl.exchange import CHUNK, Job, LocalWork
from mmfl.system.child import Message

__all__ = ["Unit", "common", "cut"]

WORK = tuple(field.name for field in fields(LocalWork))

SMALL = 3e7
"""A turn of fewer samples x weights than this is small: messages would take longer than turns."""

LARGE = 1 << 20
LIGHT = 256
"""A turn of fewer than `LIGHT` samples, with at least `LARGE` weights, is light: adding up its
update takes a considerable time compared with training."""


@dataclass
class Unit:
    """Jobs for one worker: a single one, or with `merge` a chunk whose sum it forms.

    Attributes:
        jobs: In order.
        merge: Whether the result is the sum of their updates.
        cost: How long it will take, in whatever unit all have in common.
        bytes: The size of the result.
        slot: Where the result is, from when the unit is sent until its result was delivered.
    """

    jobs: list[Job]
    merge: bool
    cost: float = 0.0
    bytes: int = 0
    slot: Slot | None = None

    def request(self, weights: Any) -> Message:
        """The request to the worker, with where its weights are; see `mmfl.engines.handler`."""
        works = {id(job.work): job.work for job in self.jobs}
        places = {key: place for place, key in enumerate(works)}
        return {
            "do": "train",
            "address": common(self.jobs[0])[:-1],
            "seed": self.jobs[0].seed,
            "clients": [job.address.client for job in self.jobs],
            "works": [{name: getattr(work, name) for name in WORK} for work in works.values()],
            "which": [places[id(job.work)] for job in self.jobs],
            "weights": weights,
            "merge": self.merge,
            "slot": self.slot,
        }


def common(job: Job) -> tuple[str, int, str, int, int]:
    """What the jobs of one message have in common: all but the client and its work."""
    at = job.address
    return at.run, at.round, at.task, at.model_version, job.seed


def cut(
    jobs: Sequence[Job],
    workers: int,
    *,
    merge: bool,
    whole: bool,
    copied: bool,
    weights: Mapping[str, int],
    pace: Mapping[str, float],
    samples: Callable[[str, Sequence[Job]], npt.NDArray[np.float64]],
) -> list[Unit]:
    """The jobs in order, cut into units.

    Chunks of small turns stay whole if there are many of them. Chunks of light turns stay whole as
    long as no worker gets more than its share of the work: the rest, job by job, evens it out. So
    the updates of large models are summed where they are, and only the last few travel.

    Args:
        jobs: Those of a task stand together.
        workers: How many there are.
        merge: Whether sums of chunks are wanted at all.
        whole: Whether turns that are light but not small may stay together.
        copied: Whether results are copied on their way: then all turns count as light.
        weights: From task to the number of its weights.
        pace: From task to the seconds that a sample took, where that is known.
        samples: From a task and its jobs to the number of examples that each will process.
    """
    many = len(jobs) >= 4 * CHUNK * workers  # else some workers would have to wait
    groups = []
    for task, run in groupby(jobs, key=lambda job: job.address.task):
        group = list(run)
        counts = samples(task, group)
        groups.append((task, group, counts, counts * pace.get(task, float(weights[task]))))
    left = sum(float(costs.sum()) for *_, costs in groups)
    units: list[Unit] = []
    for task, group, counts, costs in groups:
        size, mean = weights[task], float(counts.mean())
        first = common(group[0])
        alike = merge and all(common(job) == first for job in group)
        small = alike and many and mean * size < SMALL
        light = alike and whole and (copied or (mean < LIGHT and size >= LARGE))
        for start in range(0, len(group), CHUNK):
            chunk, cost = group[start : start + CHUNK], costs[start : start + CHUNK]
            total = float(cost.sum())
            if small or (light and len(chunk) > 1 and total * workers <= left * (1 + 1e-9)):
                units.append(Unit(chunk, True, total, 8 * size))
            else:
                pairs = zip(chunk, cost.tolist(), strict=True)
                units += [Unit([job], False, each, 4 * size) for job, each in pairs]
            left -= total
    return units
