"""A Ray cluster of several machines, all of them on this one and on 127.0.0.1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mmfl.engines.ray.connection import _quietly, import_ray

__all__ = ["Nodes", "descendants", "open_cluster"]


_FEW = {"object_store_memory": 100 << 20, "include_dashboard": False}


class Nodes:
    """The machines."""

    def __init__(self, ray: Any, cluster: Any) -> None:
        self._ray, self._cluster = ray, cluster
        self.address: str = cluster.address

    def add(self, cpus: int = 1, **options: Any) -> Any:
        """One more machine."""
        with _quietly(self._ray, here=True):
            return self._cluster.add_node(num_cpus=cpus, **_FEW, **options)

    def kill(self, node: Any) -> None:
        """A machine loses its power: every process of it is killed."""
        with _quietly(self._ray, here=True):
            self._cluster.remove_node(node, allow_graceful=False)


@contextmanager
def open_cluster(cpus: int = 1) -> Iterator[Nodes]:
    """A cluster whose first machine has so many CPUs; the others are added."""
    ray = import_ray()
    from ray.cluster_utils import Cluster

    with TemporaryDirectory(prefix="mmfl-ray-") as folder:
        with _quietly(ray, here=True):
            os.environ["RAY_TMPDIR"] = folder
            head = {"num_cpus": cpus, **_FEW}
            cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield Nodes(ray, cluster)
        finally:
            processes = [
                info.process
                for node in cluster.list_all_nodes()
                for some in node.all_processes.values()
                for info in some
            ]
            with _quietly(ray, here=True):
                cluster.shutdown()
            for process in processes:
                process.wait()


def descendants(process: int) -> list[int]:
    """A process, its children, and theirs."""
    below: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").glob("*/children"):
            below += map(int, thread.read_text().split())
    return [process, *(found for child in below for found in descendants(child))]
