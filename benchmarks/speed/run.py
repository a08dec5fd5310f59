"""mmfl, Flower, pfl and bare PyTorch loops on the same work.

    make bench-speed

Every repeat runs all contenders one after the other, each in its own processes, in an order that
rotates from repeat to repeat. Ratios are taken within a repeat, so that a slow minute of the
machine affects both sides. The report has the medians over the repeats, the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import HOUSE, arguments, machine, module, run_json, save, spread
from benchmarks.speed.workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
PEERS = HOUSE / ".venv-bench/bin/python"
Found = dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """One framework on one workload.

    Attributes:
        name: The name in the tables.
        workload: The workload's letter.
        script: The script in this folder, without its suffix.
        options: The options of the script.
        rounds: The number of rounds; the first is not measured.
        peer: Whether it runs in the peers' environment.
    """

    name: str
    workload: str
    script: str
    options: tuple[str, ...] = ()
    rounds: int = 4
    peer: bool = False

    def run(self, peers: str, data: Path) -> Found:
        """Run it and parse its last line, which is JSON."""
        options = [self.workload, "--rounds", str(self.rounds), *self.options]
        environment = os.environ | {"MMFL_BENCH_DATA": str(data)}
        if not self.peer:
            return run_json(module(f"benchmarks.speed.{self.script}", *options), environment)
        options += ["--started", str(time.time())]
        command = [peers, str(HERE / "peers" / f"{self.script}.py"), *options]
        return run_json(command, environment | {"PYTHONPATH": str(HERE)})


def contenders(workload: str, rounds: int) -> list[Contender]:
    """The contenders on a workload."""
    many = {"A": rounds, "B": 25 * rounds, "R": rounds}[workload]  # 15 rounds of B take a second
    ours, bare, pfl = ("ours",), ("bare",), ("pfl_sim",)
    found = [
        Contender("mmfl", workload, *ours, rounds=many),
        Contender("mmfl, 1 worker", workload, *ours, ("--workers", "1"), rounds=max(3, many // 2)),
        Contender("bare loops", workload, *bare, rounds=many),
        Contender("arithmetic alone", workload, "arithmetic"),
        Contender("Flower", workload, "flower", rounds=rounds, peer=True),
        Contender("pfl", workload, *pfl, ("--processes", "1"), rounds=rounds, peer=True),
        Contender("pfl, 2 processes", workload, *pfl, rounds=rounds, peer=True),
    ]
    if workload == "A":
        bf16 = ("--precision", "bf16")
        found += [
            Contender("mmfl, bf16", workload, *ours, bf16, rounds=3),
            Contender("bare loops, bf16", workload, *bare, (*bf16, "--clients", "6"), rounds=1),
        ]
    return found


def rate(found: Found) -> float:
    """What a framework did per second in its median round."""
    per = "clients" if found["workload"] == "B" else "samples"
    return float(found[per] / statistics.median(found["rounds"]))


def measure_all(workload: str, args: argparse.Namespace, data: Path) -> Found:
    """Measure all contenders on a workload, repeat after repeat."""
    todo = contenders(workload, args.rounds)
    rows: dict[str, list[Found]] = {contender.name: [] for contender in todo}
    for repeat in range(args.repeats):
        turn = repeat % len(todo)
        for contender in [*todo[turn:], *todo[:turn]]:
            found = contender.run(args.peers, data)
            rows[contender.name].append(found)
            print(f"{workload} {repeat + 1}: {contender.name} {rate(found):,.0f} /s", flush=True)

    def ratio(one: str, other: str) -> Found:
        pairs = zip(rows[one], rows[other], strict=True)
        return spread([rate(a) / rate(b) for a, b in pairs])

    table = {
        name: spread([rate(one) for one in runs])
        | {
            "mmfl is faster by": ratio("mmfl", name),
            "peak MiB": statistics.median(one.get("peak_rss_mb") or 0.0 for one in runs),
        }
        | {key: runs[0][key] for key in ("variant", "settings", "version") if key in runs[0]}
        for name, runs in rows.items()
    }
    out: Found = {"unit": "clients/s" if workload == "B" else "samples/s", "contenders": table}
    if workload == "A":
        out["mmfl bf16 over bare bf16"] = ratio("mmfl, bf16", "bare loops, bf16")
        for other in ("Flower", "pfl"):
            out[f"mmfl bf16 over {other} float32"] = ratio("mmfl, bf16", other)
    out["shares of a round"] = shares(rows["mmfl"])
    out["2 workers over 1"] = ratio("mmfl", "mmfl, 1 worker")
    return out


def shares(found: list[Found]) -> dict[str, float]:
    """Where a round goes, as shares of its wall clock (`mmfl.runs.profiling.Shares`)."""
    rounds = [parts for one in found for parts in one["shares"]]
    return {
        name: statistics.median(parts[name] / sum(parts.values()) for parts in rounds)
        for name in rounds[0]
    }


CONFIG = """
rounds = 2
score_split = "test"
clients = {{ count = {clients} }}
[local]
epochs = {epochs}
batch_size = {batch_size}
lr = {lr}
momentum = 0.0
weight_decay = 0.0
[[tasks]]
name = "digits"
dataset = "mnist_small"
model = {{ kind = "mlp", hidden = [64] }}
partition = {{ kind = "iid", points = {examples} }}
"""


def first_round(args: argparse.Namespace, data: Path, folder: Path) -> Found:
    """From the command to the end of the first round: `mmfl run` and Flower, embedded digits."""
    workload = WORKLOADS["F"]
    config = folder / "first.toml"
    config.write_text(CONFIG.format(**vars(workload)))
    times: dict[str, list[float]] = {"mmfl": [], "Flower": []}
    for repeat in range(max(5, args.repeats)):
        start = time.perf_counter()
        command = [str(Path(sys.executable).with_name("mmfl")), "run", str(config)]
        command += ["--out", str(folder / f"run-{repeat}")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("round 1/"):
                    times["mmfl"].append(time.perf_counter() - start)
        flower = Contender("Flower", "F", "flower", ("--first-round-only",), 1, peer=True)
        times["Flower"].append(flower.run(args.peers, data)["first_round_after"])
        print(f"first round {repeat + 1}:", {k: round(v[-1], 2) for k, v in times.items()})
    ratios = [a / b for a, b in zip(times["Flower"], times["mmfl"], strict=True)]
    seconds = {name: spread(found) for name, found in times.items()}
    return {"seconds": seconds, "mmfl is sooner by": spread(ratios)}


def main() -> None:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--peers", default=str(PEERS), help="the Python of the peers' environment")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default="FABR", help="letters of workloads")
    args = parser.parse_args()
    kept: Found = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        from mmfl.data import Named

        folder = Path(name)
        digits = Named("mnist_small").load(None)
        np.savez(folder / "digits.npz", x_train=digits.x_train, y_train=digits.y_train)
        results: Found = dict(kept.get("workloads", {}))
        for letter in args.only:
            if letter == "F":
                results[letter] = first_round(args, folder / "digits.npz", folder)
            else:
                results[letter] = measure_all(letter, args, folder / "digits.npz")
            head = machine("make bench-speed", "mmfl", "torch", "numpy")
            save(head | {"repeats": args.repeats, "workloads": results}, args.out)


if __name__ == "__main__":
    main()
