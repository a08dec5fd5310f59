"""The Ray engine: the same workers as in the local engine, as actors on any number of machines.

Their bits are those of the local engine, because their code is: only how workers are started and
how arrays reach them differs. Ray restarts nothing by itself. The pool replaces actors that die,
alone or with their machine, and asks again for what they owed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.engines.ray.connection import Connection, connect
from mmfl.engines.ray.launcher import ActorLauncher
from mmfl.engines.ray.object_store import ObjectStore
from mmfl.engines.workers import WorkersEngine
from mmfl.errors import EngineError, InputError
from mmfl.experiment import worker_needs
from mmfl.system.memory import refuse
from mmfl.system.processors import count_usable

if TYPE_CHECKING:
    from mmfl.experiment import Experiment, Ray

__all__ = ["open_ray"]


def open_ray(experiment: Experiment, data_dir: Path | None, settings: Ray) -> WorkersEngine:
    """Connect to Ray, or start one on this machine, and start the workers."""
    device = experiment.resolved().device
    gpus = settings.num_gpus if settings.num_gpus is not None else float(device != "cpu")
    if device != "cpu" and not gpus:
        raise InputError(f"engine.num_gpus must be more than 0 for device = {device!r}")
    connection = connect(settings.address, gpus=None if gpus else 0)
    try:
        # A Ray of our own is there for these workers alone, so they need not ask it for cores.
        own = connection.own
        options = {"num_cpus": 0.0 if own else settings.num_cpus, "num_gpus": gpus}
        workers = _count_workers(connection, settings, options)
        if own:
            refuse(worker_needs(workers), workers=workers)
        strategy = "DEFAULT" if own else "SPREAD"
        placed = {**options, "scheduling_strategy": strategy}
        launcher = ActorLauncher(connection.ray, placed, mixed=settings.mixed)
        return WorkersEngine(
            experiment,
            data_dir,
            workers,
            settings.timeout,
            transport=ObjectStore(connection),
            launcher=launcher,
            here=own,
            remarks={"mixed": "yes"} if settings.mixed else {},
        )
    except BaseException:
        connection.release()
        raise


def _count_workers(connection: Connection, settings: Ray, options: dict[str, float]) -> int:
    """How many workers to start: by default as many as there is room for."""
    if isinstance(settings.workers, int):
        return settings.workers
    if connection.own and not options["num_gpus"]:
        return count_usable()
    nodes = [node["Resources"] for node in connection.ray.nodes() if node["Alive"]]
    room = sum(_count_fitting(node, options) for node in nodes)
    if not room:
        wanted = f"{options['num_cpus']:g} CPU and {options['num_gpus']:g} GPU"
        raise EngineError(f"no machine of the cluster has {wanted}, which each worker needs")
    return room


def _count_fitting(resources: dict[str, Any], options: dict[str, float]) -> int:
    """How many workers fit on a machine."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU"}
    rooms = [resources.get(names[key], 0.0) // need for key, need in options.items() if need]
    return int(min(rooms, default=0))
