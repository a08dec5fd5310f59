"""The worker process: ``python -m mmfl.engines.worker SOCKET DATA WEIGHTS SLOTS`` (numbers).

It reads requests from the socket until that is closed, and answers each one, with its number; see
`mmfl.engines.handler`. Data, weights and results are in files that it maps.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy.typing as npt
import torch

from mmfl.engines.handler import Handler
from mmfl.engines.shared_memory.arena import attach
from mmfl.engines.shared_memory.slots import Blocks, Slot
from mmfl.errors import EngineError, MmflWarning
from mmfl.exchange import Flat
from mmfl.system import calls

__all__: list[str] = []


class _MappedFiles:
    """The files of `mmfl.engines.shared_memory.mapped.MappedFiles`."""

    def __init__(self, data: int, weights: int, *slots: int) -> None:
        self._files = {"data": data, "weights": weights}
        self._weights: Mapping[str, Flat] = {}
        self._slots = Blocks(slots)

    def attach_data(self, manifest: Any) -> Mapping[str, npt.NDArray[Any]]:
        return attach(self._files["data"], manifest)

    def attach_weights(self, manifest: Any) -> None:
        self._weights = attach(self._files["weights"], manifest)

    def find_weights(self, task: str, where: None) -> Flat:
        return self._weights[task]

    def find_place(self, slot: list[int], dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        return self._slots.array(Slot(*slot), dtype, count)

    def deliver(self, place: npt.NDArray[Any]) -> bytes:
        return b""  # the coordinator has mapped it, too


def _serve(connection: Connection, handler: Handler) -> None:
    """Answer until the other side is gone."""
    while True:
        try:
            request = json.loads(calls.receive(connection))
        except (EOFError, OSError):
            return
        reply, frame = handler.answer(request)
        try:
            calls.send(connection, json.dumps(reply | {"frame": bool(frame)}).encode())
            if frame:
                calls.send(connection, frame)
        except OSError:
            return


def main() -> None:
    """Serve on the socket whose file number is the first argument."""
    socket, *files = map(int, sys.argv[1:])
    if len(files) < 3:
        raise EngineError("a worker is started by the local engine, not by hand")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", MmflWarning)  # the coordinator has shown them already
    _serve(Connection(socket), Handler(_MappedFiles(*files)))


if __name__ == "__main__":
    main()
