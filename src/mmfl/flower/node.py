"""A node: a SuperNode, and the process that answers its messages."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmfl.errors import EngineError, InputError
from mmfl.flower.check import refuse_missing_flower
from mmfl.flower.processes import Process, end_all, find_free_ports, wait_for_port

__all__ = ["NodeOptions", "run_node", "supernode_command", "worker_command"]


@dataclass(frozen=True)
class NodeOptions:
    """What a node serves; see `mmfl.engines.flower.data`.

    Attributes:
        client: Which client it is.
        data: ``module:function`` of its own data; "" = its shard of the experiment's.
        bids: What it asks, such as "heart=2.5 skin=3".
        data_dir: Folder of npz files.
        allow_imports: Whether the server's experiment may name code that is installed here.
    """

    client: int
    data: str = ""
    bids: str = ""
    data_dir: Path | None = None
    allow_imports: bool = False

    def config(self) -> str:
        """The same for ``--node-config``."""
        told: list[str] = [f"partition-id={self.client}"]
        folder = "" if self.data_dir is None else str(self.data_dir.absolute())
        texts = {"mmfl-data": self.data, "mmfl-bids": self.bids, "mmfl-data-dir": folder}
        for key, text in texts.items():
            if '"' in text or "\\" in text:
                raise InputError(f"{key} must not contain a quote or a backslash, got {text!r}")
            told += [f'{key}="{text}"'] if text else []
        return " ".join([*told, *(["mmfl-allow-imports=true"] if self.allow_imports else [])])


def supernode_command(
    options: NodeOptions, superlink: str, port: int, *, certificates: Path | None, key: Path | None
) -> list[str]:
    """The command of a SuperNode, see `mmfl.flower.command`.

    Args:
        options: What the node serves.
        superlink: Its address.
        port: Of this machine, where it serves the process that answers.
        certificates: The authority's; None = without TLS.
        key: The node's private key, if it has to prove who it is.
    """
    node = ["flower-supernode", "--superlink", superlink, "--isolation", "process"]
    node += ["--host", "127.0.0.1", "--port", str(port), "--node-config", options.config()]
    node += ["--insecure"] if certificates is None else ["--root-certificates", str(certificates)]
    return node + ([] if key is None else ["--auth-supernode-private-key", str(key)])


def worker_command(port: int) -> list[str]:
    """The command of the process that answers the messages of the SuperNode at that port."""
    return ["mmfl-node-worker", "--runtime-api-address", f"127.0.0.1:{port}"]


def run_node(
    options: NodeOptions,
    superlink: str,
    *,
    certificates: Path | None,
    key: Path | None,
    show: Callable[[str], None],
) -> None:
    """Serve one client until this is interrupted.

    Args:
        options: What the node serves.
        superlink: Its address.
        certificates: The authority's; None = without TLS.
        key: The node's private key.
        show: Gets each new line of the SuperNode's log.
    """
    refuse_missing_flower()
    for path in (certificates, key):
        if path is not None and not path.is_file():
            raise InputError(f"{str(path)!r} is not a file")
    folder = Path(tempfile.mkdtemp(prefix="mmfl-node-"))
    (port,) = find_free_ports(1)
    commands = [
        supernode_command(options, superlink, port, certificates=certificates, key=key),
        worker_command(port),
    ]
    names = ("the SuperNode", "the process that answers")
    pair = [
        Process(name, command, folder / "home", folder / f"{place}.log")
        for place, (name, command) in enumerate(zip(names, commands, strict=True))
    ]
    try:
        for one in pair:
            one.start()
        wait_for_port(port, pair[0])
        _follow(pair, show)
    finally:
        end_all(pair)
        shutil.rmtree(folder, ignore_errors=True)


def _follow(pair: Sequence[Process], show: Callable[[str], None]) -> None:
    node, worker = pair
    place = 0
    while True:
        with node.log.open(errors="replace") as log:
            log.seek(place)
            for line in log:
                show(line.rstrip())
            place = log.tell()
        if node.ended:
            raise EngineError(f"{node.name} {node.ended}")
        if worker.ended:
            worker.start()
        time.sleep(0.2)
