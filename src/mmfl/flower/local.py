"""A whole federation on this machine: SuperLink, SuperExec, and a SuperNode for each client.

They are processes of their own, which talk over the loopback, with TLS and node authentication if
that is asked for. What they need lies in a folder of its own, which is removed at the end.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from mmfl.errors import EngineError, MmflWarning
from mmfl.flower.app import write_app
from mmfl.flower.certificates import make_certificates, make_node_key
from mmfl.flower.check import refuse_missing_flower
from mmfl.flower.control import Control
from mmfl.flower.events import Told, follow_events
from mmfl.flower.node import NodeOptions, supernode_command, worker_command
from mmfl.flower.processes import Process, end_all, find_free_ports, wait_for_port

__all__ = ["LocalFederation"]

_STARTS = 5
"""How often a ServerApp is started again before its run is given up."""

_LOOK = 2.0
"""Seconds between two questions to the SuperLink about the run."""


class LocalFederation:
    """Processes that live as long as a `with` block.

    Args:
        nodes: The nodes' own settings, by client.
        tls: Whether they talk over TLS and nodes prove who they are.
        paths: Folders in which the processes find modules of the user's.
    """

    def __init__(
        self, nodes: Sequence[NodeOptions], *, tls: bool, paths: Sequence[Path] = ()
    ) -> None:
        refuse_missing_flower()
        self.tls = tls
        self.folder = Path(tempfile.mkdtemp(prefix="mmfl-flower-"))
        self._options = list(nodes)
        self._ports = find_free_ports(1 + len(nodes))
        self.address = f"127.0.0.1:{self._ports[0]}"
        self._authority = self.folder / "ca.crt" if tls else None
        self._control = Control(self.address, self._authority, self.folder / "control")
        self._reported: set[str] = set()
        own = [*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {"PYTHONPATH": os.pathsep.join(own)} if own else {}
        self.superlink = self._process("the SuperLink", "superlink", self._superlink_command())
        self.superexec = self._process("the SuperExec", "superexec", self._superexec_command())
        self.nodes: list[tuple[Process, ...]] = []
        self.server_app = 0

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and remove the folder; may be called twice."""
        end_all([one for pair in self.nodes for one in pair] + [self.superexec, self.superlink])
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        scripts = Path(sysconfig.get_path("scripts"))
        if not (scripts / "flwr-serverapp").exists():
            raise EngineError(f"Flower's commands are not in {str(scripts)!r}; install it again")
        (self.folder / "control").mkdir()
        if self.tls:
            make_certificates(self.folder, ["127.0.0.1", "localhost"])
        self.superlink.start()
        wait_for_port(self._ports[0], self.superlink)
        self.superexec.start()
        for number in range(len(self._options)):
            self.add_node(number, register=self.tls)

    def add_node(self, number: int, *, register: bool) -> None:
        """Start the node of that number, with or without having its key registered."""
        key = self.folder / f"node{number}" if self.tls else None
        if key is not None and not key.exists():
            make_node_key(key)
        if key is not None and register:
            self._control.register(key.with_name(key.name + ".pub"))
        port = self._ports[1 + number]
        commands = [
            supernode_command(
                self._options[number], self.address, port, certificates=self._authority, key=key
            ),
            worker_command(port),
        ]
        name, home = f"the node of client {self._options[number].client}", f"home{number}"
        pair = [
            Process(
                name,
                command,
                self.folder / home,
                self.folder / f"{home}.{place}.log",
                self._environment,
            )
            for place, command in enumerate(commands)
        ]
        for one in pair:
            one.start()
        self.nodes.append(tuple(pair))

    def run(self, experiment: Path, **config: Any) -> Iterator[Told]:
        """Run an experiment; yields what its ServerApp says. It is started again if it dies.

        Args:
            experiment: The file.
            config: The run configuration, see `mmfl.flower.server_app`; "_" counts as "-".
        """
        app = self.folder / "app"
        if not app.exists():
            write_app(app)
        events = self.folder / "events.jsonl"
        told = {key.replace("_", "-"): value for key, value in config.items()}
        whole = {"experiment": str(experiment.absolute()), "events": str(events), **told}
        for _ in range(_STARTS):
            events.unlink(missing_ok=True)
            self.server_app = 0
            run = self._control.start_run(app, whole)
            try:
                for event in follow_events(events, _Watch(self, run).look):
                    if event.kind == "process":
                        self.server_app = event.values["pid"]
                    yield event
                    if event.kind == "end":
                        return
                    if event.kind == "error":
                        raise EngineError(event.values["said"])
            except _LostError as lost:
                warnings.warn(f"the ServerApp {lost}; it is started again", MmflWarning, 2)
                with suppress(EngineError):
                    self._control.stop_run(run)
        raise EngineError(f"the ServerApp ended {_STARTS} times before its end")

    def status(self, run: int) -> tuple[str, str]:
        """Status and details of a run."""
        return self._control.status(run)

    def look_after(self) -> None:
        """Start the SuperLink and the SuperExec again if they ended; tell which nodes ended."""
        for one in (self.superlink, self.superexec):
            if one.ended:
                warnings.warn(f"{one.name} {one.ended}; it is started again", MmflWarning, 2)
                one.start()
        for pair in self.nodes:
            for one in pair:
                if one.ended and one.name not in self._reported:
                    self._reported.add(one.name)
                    said = f"{one.name} {one.ended}; the run continues without it"
                    warnings.warn(said, MmflWarning, 2)
                    end_all(pair)

    def _superlink_command(self) -> list[str]:
        command = ["flower-superlink", "--isolation", "process", "--host", "127.0.0.1"]
        command += ["--port", str(self._ports[0]), "--database", str(self.folder / "link.db")]
        if not self.tls:
            return [*command, "--insecure"]
        command += ["--ssl-ca-certfile", str(self._authority), "--enable-supernode-auth"]
        command += ["--ssl-certfile", str(self.folder / "server.pem")]
        return [*command, "--ssl-keyfile", str(self.folder / "server.key")]

    def _superexec_command(self) -> list[str]:
        command = ["flower-superexec", "--runtime-api-address", self.address]
        if self._authority is None:
            return [*command, "--insecure"]
        return [*command, "--root-certificates", str(self._authority)]

    def _process(self, name: str, short: str, command: Sequence[str]) -> Process:
        log = self.folder / f"{short}.log"
        return Process(name, command, self.folder / short, log, self._environment)


class _LostError(Exception):
    """A ServerApp is gone before its end."""


class _Watch:
    """Looks after the processes while a run is followed."""

    def __init__(self, federation: LocalFederation, run: int) -> None:
        self._federation, self._run = federation, run
        self._next = time.monotonic() + _LOOK
        self._missing = 0

    def look(self) -> None:
        """Raise if the run is over without having said so."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOOK
        self._federation.look_after()
        pid = self._federation.server_app
        gone = bool(pid) and not _is_running(pid)
        self._missing = self._missing + 1 if gone else 0
        if self._missing > 1:  # its last words have been read by now
            self._federation.server_app = 0
            raise _LostError("ended")
        try:
            status, details = self._federation.status(self._run)
        except EngineError:  # the SuperLink starts again
            return
        if status.startswith("finished") and not pid:
            raise _LostError(f"did not start ({details or status})")


def _is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
