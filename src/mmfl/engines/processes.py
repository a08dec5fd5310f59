"""What the pool and the engine need to know of workers, wherever they run: two protocols.

Launcher    starts workers and waits for them       LocalLauncher   ray.actors
Transport   gets arrays to workers, and back        MappedFiles     ray.object_store
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.engines.requests import Reply
from mmfl.engines.shared_memory.slots import Slot
from mmfl.errors import EngineError
from mmfl.exchange import Flat, Layout, Params
from mmfl.system import calls
from mmfl.system.child import Child, Message

__all__ = ["Launcher", "LocalLauncher", "Transport", "WorkerProcess"]

_KEEP_MEMORY = {  # else glibc gives each batch's memory back to the system, and asks for it again
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_TOP_PAD_": "100000000",
}


class WorkerProcess(Protocol):
    """A worker: it answers messages in the order in which they were sent."""

    @property
    def runs(self) -> bool:
        """Whether it has been given a place to run: before that, it is not worth waiting for."""
        ...

    def send(self, message: Message) -> None:
        """Send a message; if it cannot get there, `receive` finds out."""
        ...

    def receive(self) -> Reply:
        """The answer to the oldest message; `EOFError` or `OSError` if there will be none."""
        ...

    def check_greeting(self, reply: Message) -> None:
        """Raise `EngineError` if a worker with this answer to a greeting cannot be used."""
        ...

    def end(self) -> None:
        """End it at once; `receive` finds out."""
        ...

    def free(self) -> None:
        """End it at once, and free everything."""
        ...

    def wait_for_end(self, patience: float) -> int:
        """The exit code of one that has failed, or the negative number of a signal."""
        ...

    def read_last_line(self) -> str:
        """The last thing that it said."""
        ...


class Launcher(Protocol):
    """Starts workers."""

    def start(self, patience: float | None) -> WorkerProcess:
        """A new worker; sending and receiving fail if it is silent for `patience` seconds."""
        ...

    def wait(self, workers: Sequence[Any], patience: float | None) -> Sequence[Any]:
        """Those that have sent something or have ended; it waits until there is one."""
        ...


class Transport(Protocol):
    """Gets data and weights to workers, and results back."""

    @property
    def copies(self) -> bool:
        """Whether results are copied, or travel far, so that few sums are best."""
        ...

    def share(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Make arrays known to workers; what their set-up says of them."""
        ...

    def reserve(self, layouts: Mapping[str, Layout]) -> Message | None:
        """Make room for the weights of these models; what workers have to be told of it."""
        ...

    def publish(self, task: str, weights: Params) -> None:
        """Make a task's weights known to workers."""
        ...

    def locate(self, task: str) -> Any:
        """What a request says of where its weights are."""
        ...

    def take(self, size: int) -> Slot | None:
        """A place for a result of that many bytes, if a worker needs one."""
        ...

    def give_back(self, slot: Slot) -> None:
        """The place is free again."""
        ...

    def read(self, slot: Slot | None, frame: Any, count: int) -> Flat:
        """A delta, as long as its place is not given back."""
        ...

    def lend(self, slot: Slot | None, frame: Any, count: int) -> npt.NDArray[np.float64]:
        """A sum that may be overwritten; its place is given back when it is gone."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class _LocalProcess:
    """A process on this machine, at the other end of a socket."""

    runs = True

    def __init__(self, child: Child) -> None:
        self.child = child
        self.send, self.free = child.send, child.kill
        self.wait_for_end, self.read_last_line = child.wait_for_end, child.read_last_line

    def receive(self) -> Reply:
        connection = self.child.connection
        try:
            reply: Message = json.loads(calls.receive(connection))
            frame = calls.receive(connection) if reply["frame"] else b""
        except (KeyError, TypeError, ValueError):  # it is not the worker that speaks
            self.end()
            raise EOFError from None
        return reply, frame

    def check_greeting(self, reply: Message) -> None:
        """All of them are alike."""

    def end(self) -> None:
        self.child.process.kill()


class LocalLauncher:
    """Starts worker processes on this machine.

    Args:
        files: The descriptors of the files that they share.
    """

    def __init__(self, files: tuple[int, ...]) -> None:
        self._files = files

    def start(self, patience: float | None) -> _LocalProcess:
        """Start ``python -m mmfl.engines.worker``."""
        module, files = "mmfl.engines.worker", self._files
        return _LocalProcess(
            Child.start(module, files=files, environment=_KEEP_MEMORY, patience=patience)
        )

    def wait(
        self, workers: Sequence[_LocalProcess], patience: float | None
    ) -> Sequence[_LocalProcess]:
        """Wait for their sockets."""
        known = {worker.child.connection: worker for worker in workers}
        try:
            heard = calls.wait(list(known), patience)
        except OSError as error:
            raise EngineError(f"cannot wait for worker processes: {error}") from None
        return [known[connection] for connection in heard]  # type: ignore[index]
