"""Kill processes of a deployed Flower federation, and record what is left.

.venv-bench/bin/python chaos/peers/flower_deployed.py --out chaos/results/flower_deployed.json

A SuperLink with a database, a SuperExec and three SuperNodes on the loopback run `flower_app` three
times: a ClientApp process kills itself in round 2; the ServerApp process is killed (SIGKILL) after
round 2; and a third run shows where a new run begins.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

COMMAND = (
    ".venv-bench/bin/python chaos/peers/flower_deployed.py --out chaos/results/flower_deployed.json"
)
APP = Path(__file__).parent / "flower_app"
BIN = Path(sys.executable).parent
LIMIT = 240.0  # seconds of a run
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def started(*command: str, log: Path) -> Iterator[None]:
    """A process and its children, killed when the block ends."""
    with log.open("w") as out:
        child = subprocess.Popen(
            [str(BIN / command[0]), *command[1:]], stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(30)


@contextmanager
def federation(folder: Path) -> Iterator[None]:
    """A SuperLink, a SuperExec and three SuperNodes."""
    port = _free_port()
    link = f"127.0.0.1:{port}"
    os.environ |= QUIET | {"FLWR_HOME": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}"}
    (folder / "config.toml").write_text(
        f'[superlink]\ndefault = "chaos"\n[superlink.chaos]\naddress = "{link}"\ninsecure = true\n'
    )
    here, database = ["--insecure", "--host", "127.0.0.1"], str(folder / "link.db")
    with ExitStack() as stack:
        serving = ["--isolation", "process", "--port", str(port), "--database", database]
        stack.enter_context(
            started("flower-superlink", *here, *serving, log=folder / "superlink.log")
        )
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            time.sleep(0.5)
        executing = ["--insecure", "--runtime-api-address", link]
        stack.enter_context(started("flower-superexec", *executing, log=folder / "superexec.log"))
        for node in range(3):
            own = ["--superlink", link, "--port", str(_free_port())]
            config = ["--node-config", f"partition-id={node}"]
            log = folder / f"node{node}.log"
            stack.enter_context(started("flower-supernode", *here, *own, *config, log=log))
        yield


def _flwr(*arguments: str) -> dict[str, Any]:
    command = [str(BIN / "flwr"), *arguments, "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _status(run: str) -> dict[str, Any]:
    return _flwr("list", "chaos", "--run-id", run)["runs"][0]


def noted(path: Path, event: str) -> list[dict[str, Any]]:
    """The notes of one kind that the server has written."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [note for note in map(json.loads, lines) if note["event"] == event]


def watched(folder: Path, kind: str, kill_after_round: int | None = None) -> dict[str, Any]:
    """One run, from its start to the end that the SuperLink reports."""
    notes = folder / f"{kind}.jsonl"
    run = _flwr("run", str(APP), "chaos", "-c", f"kind='{kind}' notes='{notes}'")["run-id"]
    killed: float | None = None
    until = time.monotonic() + LIMIT
    while not (status := _status(run))["status"].startswith("finished"):
        rounds = noted(notes, "round")
        if killed is None and rounds and rounds[-1]["round"] == kill_after_round:
            os.kill(noted(notes, "started")[-1]["pid"], signal.SIGKILL)
            killed = time.time()
        if time.monotonic() > until:
            break
        time.sleep(0.5)
    rounds = noted(notes, "round")
    return {
        "status": status["status"],
        "status details": status["status-details"],
        "seconds from the kill to this status": killed and round(time.time() - killed),
        "starts of the ServerApp": len(noted(notes, "started")),
        "context.state at the start": noted(notes, "started")[0]["state"],
        "rounds": [note["round"] for note in rounds],
        "model": [note["first"] for note in rounds],
        "seconds of rounds": [
            round(after["time"] - before["time"], 1) for before, after in itertools.pairwise(rounds)
        ],
        "replies": [note["line"] for note in noted(notes, "replies")],
        "errors": sorted(
            {
                note["whole"].partition(": ")[2]
                for note in noted(notes, "replies")
                if "error in reply" in note["whole"]
            }
        ),
    }


def main() -> None:
    """The three runs, one after the other."""
    parser = argparse.ArgumentParser(description="Kill processes of a deployed Flower federation.")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, federation(Path(name)):
        folder = Path(name)
        whole: dict[str, Any] = {
            "command": COMMAND,
            "date": time.strftime("%Y-%m-%d"),
            "flwr": version("flwr"),
            "python": sys.version.split()[0],
            "client process killed": watched(folder, "client process killed"),
            "server process killed": watched(folder, "server process killed", kill_after_round=2),
            "a new run afterwards": watched(folder, "none"),
        }
    given.out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
