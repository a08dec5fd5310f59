"""Flower's programs as processes of ours: no telemetry, nothing left behind.

Each has its own process group, which is ended as a whole. If this process is killed, the programs
end by themselves: see `mmfl.system.guard`; what they have started watches them in turn.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mmfl.errors import EngineError
from mmfl.system.starter import start_process

__all__ = ["QUIET", "Process", "end_all", "find_free_ports", "wait_for_port"]

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
}

_GRACE = 3.0
"""Seconds that programs have to end by themselves."""


@dataclass(eq=False)
class Process:
    """One of Flower's programs, or ours.

    Attributes:
        name: What it is called in messages.
        command: See `mmfl.flower.command`.
        home: FLWR_HOME, where it keeps files.
        log: Where its output goes.
        environment: More variables.
    """

    name: str
    command: Sequence[str]
    home: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        scripts = sysconfig.get_path("scripts")
        own = {"FLWR_HOME": str(self.home), "PATH": f"{scripts}:{os.environ.get('PATH', '')}"}
        self.home.mkdir(exist_ok=True)
        guard = [sys.executable, "-P", "-m", "mmfl.system.guard", "mmfl.flower.command"]
        with self.log.open("ab") as log:
            self._child = start_process(
                [*guard, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **QUIET, **own, **self.environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process's number; 0 before it was started."""
        return 0 if self._child is None else self._child.pid

    @property
    def ended(self) -> str:
        """How it ended; "" while it runs."""
        code = None if self._child is None else self._child.poll()
        if code is None:
            return ""
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"

    def describe_log(self) -> str:
        """The last line that it wrote."""
        lines = (
            self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        )
        return lines[-1].strip() if lines else "it wrote nothing"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and all that it has started."""
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ends in time."""
        if self._child is None:
            return True
        try:
            self._child.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True


def end_all(processes: Iterable[Process]) -> None:
    """End these programs and all that they have started."""
    every = list(processes)
    for one in every:
        one.signal(signal.SIGTERM)
    until = time.monotonic() + _GRACE
    for one in every:
        one.wait(until - time.monotonic())
    for one in every:
        one.signal(signal.SIGKILL)
        one.wait(_GRACE)


def find_free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for_port(port: int, process: Process, seconds: float = 60.0) -> None:
    """Wait until a program listens."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.ended:
            break
        time.sleep(0.1)
    how = process.ended or f"does not listen after {seconds:g} seconds"
    raise EngineError(f"{process.name} {how}: {process.describe_log()}")
