"""This process's connection to Ray: to a cluster, or to a Ray of its own.

A process has one connection, so its engines share it, and the last one ends what the first began. A
Ray that the program started itself is used as it is, and left running.

A Ray of our own listens on 127.0.0.1 only, shows no dashboard, reports no usage, prints nothing,
and keeps its files in a temporary folder that is removed with it.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from mmfl.errors import EngineError, text_of
from mmfl.system import calls
from mmfl.system.network import answers, is_loopback, split_address

__all__ = ["Connection", "connect", "import_ray"]

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # elsewhere, too: nodes are on 127.0.0.1
    "RAY_worker_niceness": "0",  # Ray would have everything else on this machine go first
}

_LONGEST = 24
"""Ray puts sockets below the folder for temporary files, and their paths have 107 bytes at most."""


@dataclass(eq=False)
class _Shared:
    """What the engines of this process share."""

    address: str | None
    own: bool
    cleanup: ExitStack
    users: int = 0


_lock = threading.Lock()
_shared: _Shared | None = None


class Connection:
    """One engine's part in the connection.

    Attributes:
        ray: The module.
        own: Whether Ray is our own: on this machine, and for this process alone.
    """

    def __init__(self, ray: Any, shared: _Shared) -> None:
        self.ray = ray
        self.own = shared.own
        self._shared: _Shared | None = shared
        self._process = os.getpid()
        shared.users += 1

    def release(self) -> None:
        """Give it back; whoever does so last ends what was begun. May be called twice."""
        global _shared  # noqa: PLW0603
        with _lock:
            shared, self._shared = self._shared, None
            if shared is None or os.getpid() != self._process:
                return
            shared.users -= 1
            if not shared.users:
                _shared = None
                shared.cleanup.close()


def import_ray() -> Any:
    """The module, or one sentence about how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise EngineError(
            "the engine 'ray' needs Ray, which is not installed: pip install 'mmfl[ray]'"
        ) from None
    return ray


def connect(address: str | None, *, gpus: int | None = 0, memory: int | None = None) -> Connection:
    """Connect to Ray.

    Args:
        address: A cluster's, such as "10.0.0.1:6379", or "auto" for the one on this machine; by
            default the one that the program is connected to already, else a Ray of our own.
        gpus: How many GPUs our own may use; None: those that Ray finds.
        memory: Bytes of its object store; by default as many as Ray thinks best.
    """
    global _shared  # noqa: PLW0603
    ray = import_ray()
    with _lock:
        if _shared is not None and _shared.users:
            _check_same(_shared.address, address)
        elif ray.is_initialized():
            current = ray.get_runtime_context().gcs_address
            if address not in (None, "auto"):
                _check_same(current, address)
            _shared = _Shared(address, False, ExitStack())
        else:
            _shared = _start(ray, address, gpus, memory)
        return Connection(ray, _shared)


def _check_same(current: str | None, wanted: str | None) -> None:
    if current != wanted:
        names = ["a Ray of its own" if one is None else one for one in (current, wanted)]
        raise EngineError(
            f"this program is connected to {names[0]} and cannot be connected to {names[1]} at the "
            "same time: close the other engine first"
        )


def _start(ray: Any, address: str | None, gpus: int | None, memory: int | None) -> _Shared:
    options: dict[str, Any] = {
        "address": "local" if address is None else address,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    with ExitStack() as cleanup:
        if address is None:
            long = len(tempfile.gettempdir()) > _LONGEST
            folder = calls.temporary_folder(prefix="mmfl-ray-", folder="/tmp" if long else None)
            options |= {
                "num_cpus": 1,
                "num_gpus": gpus,
                "include_dashboard": False,
                "object_store_memory": memory,
                "_temp_dir": cleanup.enter_context(folder),
            }
        cleanup.enter_context(_silence(ray))
        cleanup.callback(_shut_down, ray)
        try:
            with _quietly(ray, here=address is None or _is_here_alone(ray, address)):
                ray.init(**options)
        except EngineError:
            raise
        except (Exception, SystemExit) as error:
            said = text_of(error).strip().partition("\n")[0]
            if address == "auto":
                raise EngineError(
                    "no Ray was found on this machine: start one with 'ray start', or set "
                    "engine.address to a host and a port"
                ) from error
            what = "Ray cannot be started" if address is None else f"no Ray answers at {address}"
            raise EngineError(f"{what}: {said}") from error
        found = ray.util.get_node_ip_address()
        if address is None and not found.startswith("127."):
            raise EngineError(f"Ray would listen on {found}, which other machines may reach")
        return _Shared(address, address is None, cleanup.pop_all())


def _is_here_alone(ray: Any, address: str) -> bool:
    """Whether a cluster listens on 127.0.0.1 only; `EngineError` if there is none at all.

    Ray itself would wait for minutes, and takes 127.0.0.1 for this machine's outward address.
    """
    if address == "auto":
        return False
    host, port = split_address(address)
    if not answers(host, port):
        raise EngineError(f"no Ray answers at {address}")
    return is_loopback(host) and not answers(ray.util.get_node_ip_address(), port)


@contextmanager
def _silence(ray: Any) -> Iterator[None]:
    """Without what Ray prints about machines that it loses: the pool copes with that."""
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _shut_down(ray: Any) -> None:
    node = ray._private.worker._global_node
    started = [] if node is None else [*node.all_processes.values()]
    processes = [info.process for some in started for info in some]
    with _quietly(ray, here=True):
        ray.shutdown()
    for process in processes:  # Ray ends them, but does not wait for all of them
        process.wait()


@contextmanager
def _quietly(ray: Any, *, here: bool) -> Iterator[None]:
    """Without warnings, and with the program's own environment and signal handlers afterwards."""
    from ray._private import ray_constants

    before = dict(os.environ)
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    main = threading.current_thread() is threading.main_thread()
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)} if main else {}
    try:
        os.environ.update(_ENVIRONMENT if here else {"RAY_USAGE_STATS_ENABLED": "0"})
        ray_constants.ENABLE_RAY_CLUSTER = clusters and not here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name in os.environ.keys() - before.keys():  # Ray sets some
            del os.environ[name]
        os.environ.update(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
