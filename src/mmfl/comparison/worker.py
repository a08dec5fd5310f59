"""A process that does runs of a comparison: ``python -m mmfl.comparison.worker SOCKET``.

`mmfl.comparison.pool` is the other end; SOCKET is the number of a file that is open.
After {"command", "data_dir", "workers"} come requests:

    {"do": "check", "experiment", "folder", "code"}    all that can go wrong before the first round
    {"do": "run", "experiment", "folder", "code"}      the run

"code" has the hashes of the user's modules: they must be the same here.

Each is answered by {"over": true}, with "error", its "trace" and (if it is mmfl's) its "kind" if it
failed; before that by {"round", "metric", "traces"} for each round and {"warning": sentence}.

A run's code may fork this process; a fork that would send a message ends instead.

When the socket is closed, the run is stopped and marked as stopped, and the process ends. If the
other process dies, this one is killed (`mmfl.system.guard`): its run counts as interrupted.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from contextlib import closing, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mmfl.comparison.series import Series
from mmfl.errors import MmflError, MmflWarning
from mmfl.experiment import Experiment, refuse_edited_code
from mmfl.system import calls
from mmfl.system.child import Message
from mmfl.system.interrupts import Interrupt, interruptible
from mmfl.system.tracebacks import format_cause
from mmfl.system.user_code import describe_error, pass_on

__all__: list[str] = []


class ComparisonWorker:
    """Does what it is asked, one request after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._pid = connection, os.getpid()

    def serve(self, requests: SimpleQueue[Message]) -> None:
        """Answer until this is interrupted."""
        start = requests.get()
        sys.argv = start["command"]  # what a run's directory says it was made by
        data_dir = start["data_dir"]
        folder = None if data_dir is None else Path(data_dir)
        with closing(Series(folder, workers=start["workers"])) as series:
            while True:
                self._tell({"over": True} | self._answer(series, requests.get()))

    def warn(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        """Let the other side show a warning."""
        name = "" if issubclass(category, MmflWarning) else f"{category.__name__}: "
        self._tell({"warning": f"{name}{' '.join(str(message).split())}"})

    def _answer(self, series: Series, request: Message) -> Message:
        try:
            # Imports were allowed or refused on the other side.
            experiment = Experiment.from_toml(request["experiment"], allow_imports=True)
            refuse_edited_code(experiment, request["code"])
            if request["do"] == "check":
                series.check(experiment)
            else:
                with closing(series.run(experiment, Path(request["folder"]))) as steps:
                    for step in steps:
                        self._tell(dataclasses.asdict(step))
        except MmflError as error:
            ours = (cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "mmfl.errors")
            return {"error": str(error), "kind": next(ours), "trace": format_cause(error)}
        except BaseException as error:
            pass_on(error)
            return {"error": describe_error(error), "trace": traceback.format_exc()}
        return {}

    def _tell(self, message: Message) -> None:
        if os.getpid() != self._pid:
            os._exit(0)
        with suppress(OSError):  # nobody is there: `_listen` is about to interrupt us
            calls.send(self._connection, json.dumps(message).encode())


def _listen(connection: Connection, requests: SimpleQueue[Message]) -> None:
    """Pass requests on; in the end, interrupt whatever the main thread is doing."""
    with suppress(EOFError, OSError):
        while True:
            requests.put(json.loads(calls.receive(connection)))
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def main() -> None:
    """Serve on the socket whose file number is the first argument."""
    connection = Connection(int(sys.argv[1]))
    requests: SimpleQueue[Message] = SimpleQueue()
    worker = ComparisonWorker(connection)
    warnings.showwarning = worker.warn
    with interruptible():
        try:
            calls.start_thread(partial(_listen, connection, requests), "listen")
            worker.serve(requests)
        except Interrupt as interrupt:
            sys.exit(interrupt.exit_code)


if __name__ == "__main__":
    main()
