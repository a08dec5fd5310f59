"""What Flower's strategies do with bad client replies, each kind in its own simulation.

.venv-bench/bin/python chaos/peers/flower_faults.py --out chaos/results/flower.json

Ten clients are all asked in each of four rounds; one of them is bad in every round. Strategies are
used unchanged. Their public hook `train_metrics_aggr_fn` records whose replies are averaged and
then calls Flower's own function.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}

import numpy as np
from flower_fault_client import BAD, CLIENTS, FAULTS, SEED, app, evaluate, initial
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp import strategy as strategies
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from flwr.simulation import run_simulation

COMMAND = ".venv-bench/bin/python chaos/peers/flower_faults.py --out chaos/results/flower.json"
ROUNDS = 4
LIMIT = 150.0  # seconds of a whole simulation
DEADLINE = 6.0  # seconds of a round in which a client does not answer; Flower's default is an hour
PATIENT = 60.0  # seconds of a round in which all should answer

SILENT = {
    "never answers",
    "too slow",
    "duplicate reply (two messages returned)",
    "replay (addressed to the earlier message)",
    "malformed content (no message returned)",
}
ACTORS = {"never answers": 6, "too slow": 6}  # a sleeper holds an actor; other kinds have two

ROBUST: dict[str, dict[str, Any]] = {
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.2},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": CLIENTS - 3},
    "Bulyan": {"num_malicious_nodes": 1},
}
ROBUST_KINDS = (
    "none",
    "NaN update",
    "wrong shape",
    "wrong shape (transposed)",
    "scaled update",
    "sign-flipped",
)
RUNS = [("FedAvg", kind) for kind in FAULTS] + [(s, k) for s in ROBUST for k in ROBUST_KINDS]


def _plain(told: Any) -> Any:
    """The same for JSON, which has no NaN."""
    if isinstance(told, dict):
        return {key: _plain(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_plain(value) for value in told]
    if isinstance(told, float):
        return float(f"{told:.4g}") if math.isfinite(told) else str(told)
    return told


def shortened(text: str) -> str:
    """The first and the last line, without colours, ids and other details of this machine."""
    plain = re.sub(r"\x1b\[\d+m|\(pid=.*?\)|0x\w+|/\S*/site-packages/", "", text)
    plain = re.sub(r" \d{9,}| [0-9a-f]{8}-[0-9a-f-]{27}", "", plain)
    lines = [line.strip() for line in plain.splitlines()]
    lines = [line for line in lines if line]
    return " ... ".join(line[:160] for line in (lines if len(lines) < 2 else (lines[0], lines[-1])))


class Witness(logging.Handler):
    """Records what Flower logs, and what a run has shown so far."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.told: dict[str, Any] = {
            "received": [],
            "averaged": [],
            "accuracy": [],
            "loss": [],
            "reported loss": [],
            "finite": [],
            "largest weight": [],
            "dtype": [],
            "logged": [],
        }

    def emit(self, record: logging.LogRecord) -> None:
        """Record Flower's counts for each round, failures, warnings and errors."""
        line = shortened(record.getMessage())
        if record.msg == "%s: Received %s results and %s failures":
            self.told["received"].append(list(record.args[1:]))
            self.told["averaged"].append([])
        elif record.levelno >= logging.WARNING or "Received error" in line:
            self.told["logged"].append(line)

    def round_ended(self, server_round: int, record: ArrayRecord) -> None:
        """Score the model on the server; Flower calls this before the first round too."""
        if server_round > 0:
            for counted, nothing in (("received", [0, 0]), ("averaged", [])):
                self.told[counted] += [nothing] * (server_round - len(self.told[counted]))
            arrays = {name: array.numpy() for name, array in record.items()}
            accuracy, loss = evaluate(arrays)
            self.told["accuracy"].append(accuracy)
            self.told["loss"].append(loss)
            self.told["finite"].append(all(bool(np.isfinite(v).all()) for v in arrays.values()))
            self.told["largest weight"].append(float(max(abs(v).max() for v in arrays.values())))
            self.told["dtype"].append(sorted({str(v.dtype) for v in arrays.values()}))
        self.save()

    def save(self) -> None:
        """Write what is known, so that it is kept if the run has to be stopped."""
        self.path.write_text(json.dumps(_plain(self.told)))

    def averaging(self, records: list[RecordDict], key: str) -> MetricRecord:
        """Record whose replies are averaged; returns Flower's average of their metrics."""
        clients = [int(next(iter(r.metric_records.values()))["client"]) for r in records]
        self.told["averaged"][-1] = sorted(clients)
        metrics = aggregate_metricrecords(records, key)
        self.told["reported loss"].append(metrics["loss"])
        return metrics


def raised(error: BaseException) -> dict[str, str]:
    """The error, and the innermost line of Flower's code in its traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/flwr/" in f.filename]
    last = next(f for f in reversed(frames) if not f.name.startswith("<"))  # no <listcomp>
    where = f"flwr/{last.filename.rpartition('/flwr/')[2]}:{last.lineno} {last.name}"
    first = next(iter(str(error).strip().splitlines()), "")
    return {"type": type(error).__name__, "first line": first, "where": where}


def twice(grid: Grid, node: int, told: dict[str, Any]) -> None:
    """Make the transport deliver every training reply of `node` twice."""
    store = grid.state.store_message_res
    told["second copy accepted"] = []

    def stores(message: Message) -> str | None:
        again = copy.deepcopy(message)
        again.metadata.__dict__["_message_id"] = str(uuid4())
        kept = store(message)
        if message.metadata.src_node_id == node:
            told["second copy accepted"].append(store(again) is not None)
        return kept

    grid.state.store_message_res = stores


def simulate(strategy_name: str, kind: str, path: Path) -> None:
    """Run one simulation in this process; what it shows goes to `path`."""
    witness = Witness(path)
    logging.getLogger("flwr").addHandler(witness)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        while len(nodes := list(grid.get_node_ids())) < CLIENTS:
            time.sleep(0.1)
        asked = [Message(RecordDict(), dst_node_id=n, message_type="query") for n in nodes]
        who = {
            int(reply.content.metric_records["metrics"]["client"]): reply.metadata.src_node_id
            for reply in grid.send_and_receive(asked, timeout=PATIENT)
        }
        if kind == "duplicate reply":
            twice(grid, who[BAD], witness.told)
        strategy = getattr(strategies, strategy_name)(
            fraction_evaluate=0.0,
            min_train_nodes=CLIENTS,
            min_available_nodes=CLIENTS,
            train_metrics_aggr_fn=witness.averaging,
            **ROBUST.get(strategy_name, {}),
        )
        witness.told["logged"].clear()  # earlier records are not about replies
        began = time.monotonic()
        try:
            strategy.start(
                grid=grid,
                initial_arrays=ArrayRecord({k: Array(v) for k, v in initial().items()}),
                num_rounds=ROUNDS,
                timeout=DEADLINE if kind in SILENT else PATIENT,
                train_config=ConfigRecord({"kind": kind}),
                evaluate_fn=witness.round_ended,
            )
        except Exception as error:
            witness.told["exception"] = raised(error)
            raise
        finally:
            witness.told["seconds"] = round(time.monotonic() - began, 1)
            witness.save()

    try:
        run_simulation(
            server_app=server_app,
            client_app=app,
            num_supernodes=CLIENTS,
            backend_config={
                "init_args": {"num_cpus": ACTORS.get(kind, 2)},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    except Exception as error:
        witness.told.setdefault("exception", raised(error))
    witness.save()


def run(strategy_name: str, kind: str) -> dict[str, Any]:
    """Run one simulation in its own process, stopped when it takes too long."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "told.json"
        command = [sys.executable, __file__, "--strategy", strategy_name, "--kind", kind]
        with (Path(folder) / "log").open("w") as log:
            child = subprocess.Popen(
                [*command, "--out", str(path)], stdout=log, stderr=log, start_new_session=True
            )
            try:
                child.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        told = json.loads(path.read_text())
        told["seconds of the process"] = round(time.monotonic() - began, 1)
    return told


def judged(told: dict[str, Any], kind: str, clean: dict[str, Any] | None) -> dict[str, Any]:
    """The outcome of a run in one of three words, and the numbers behind it."""
    late = kind.startswith("replay")  # round 1 has nothing to replay
    averaged = told["averaged"][late:]
    if kind == "none":
        outcome = "clean"
    elif "exception" in told or "seconds" not in told:  # raised an error, or did not end in time
        outcome = "run ended"
    elif kind == "duplicate reply":  # the first copy is honest
        outcome = "aggregated" if any(told["second copy accepted"]) else "refused"
    else:
        outcome = "aggregated" if any(BAD in clients for clients in averaged) else "refused"
    told["averaged"] = [len(clients) for clients in told["averaged"]]
    told["bad averaged"] = [BAD in clients for clients in averaged]
    told["logged"] = sorted(set(told["logged"]))
    summary = {
        "outcome": outcome,
        "rounds": len(told["accuracy"]),
        "final accuracy": told["accuracy"][-1] if told["accuracy"] else None,
        "clean accuracy": clean["final accuracy"] if clean else None,
        "final loss": told["loss"][-1] if told["loss"] else None,
        "clean loss": clean["final loss"] if clean else None,
    }
    return summary | told


def written(whole: dict[str, Any]) -> str:
    """JSON with each list on one line."""
    text = json.dumps(whole, indent=1)
    for lists in (r"\[\n\s+([^\[\]{}]*?)\n\s+\]", r"\[\n\s+(\[[^{}]*?\])\n\s+\]"):
        text = re.sub(lists, lambda found: "[" + re.sub(r"\n\s+", " ", found[1]) + "]", text)
    return text + "\n"


def main() -> None:
    """Do all runs, or the one that is named."""
    parser = argparse.ArgumentParser(description="Give Flower bad client replies.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--strategy", help="only this strategy, with --kind, in this process")
    parser.add_argument("--kind", choices=FAULTS)
    given = parser.parse_args()
    if given.kind:
        simulate(given.strategy, given.kind, given.out)
        return
    whole: dict[str, Any] = {
        "command": COMMAND,
        "date": time.strftime("%Y-%m-%d"),
        **{name: version(name) for name in ("flwr", "ray", "numpy")},
        "python": sys.version.split()[0],
        "seed": SEED,
        "clients": CLIENTS,
        "rounds": ROUNDS,
        "deadline of a round, seconds": {"where somebody is silent": DEADLINE, "else": PATIENT},
        "strategies": {"FedAvg": {}, **ROBUST},
        "runs": {},
    }
    for strategy_name, kind in RUNS:
        runs = whole["runs"].setdefault(strategy_name, {})
        runs[kind] = judged(run(strategy_name, kind), kind, runs.get("none"))
        sys.stderr.write(f"{strategy_name}, {kind}: {runs[kind]['outcome']}\n")
        given.out.write_text(written(whole))


if __name__ == "__main__":
    main()
