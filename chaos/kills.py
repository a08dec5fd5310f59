"""Kill coordinators and workers at random instants: does the result change?

    python -m chaos.kills coordinator --count 100 --seed 0 --out chaos/results/coordinator.json
    python -m chaos.kills workers --count 100 --seed 0 --out chaos/results/workers.json

`coordinator`: each run gets one to three SIGKILLs, is resumed after each, and must end with the
fingerprint of an uninterrupted run. One kill in four comes at any time after the process starts.
The other three wait for a random round, and two of these also for an unfinished file in the folder
of checkpoints, so that they hit a write. Each start draws one of the engines local and inline.
`workers`: the coordinator lives, and its worker processes are killed at random instants, on average
once in the time that a new worker needs to get ready. The seed determines the plan; what a kill
hits depends on the machine.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import HOUSE, arguments, machine, save

__all__ = ["coordinator", "workers"]

EXPERIMENT = HOUSE / "chaos" / "killed.toml"
LONG = ("--set", "rounds=120", "--set", "checkpoints.rounds=1000")
LIMIT = 300.0
"""A run that takes longer than this many seconds counts as hanging."""


def start_run(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """``mmfl run --resume`` in its own process."""
    command = [sys.executable, "-m", "mmfl", "run", str(EXPERIMENT), "--resume", "--json", "-q"]
    return subprocess.Popen(
        [*command, "--out", str(folder), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def engine(generator: random.Random) -> list[str]:
    """An engine at random: it does not affect the result, so it may change from kill to kill."""
    return ["--set", f"engine.kind={generator.choice(['local', 'inline'])}"]


def wait_for_end(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit code, fingerprint and the text on standard error."""
    code, found, said = result(process)
    return code, found.get("fingerprint", ""), said


def result(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any], str]:
    """Exit code, the output of ``--json``, and the text on standard error."""
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return -1, {}, "hangs"
    found = json.loads(out) if process.returncode == 0 else {}
    return process.returncode, found, err.decode(errors="replace").strip()


def children(pid: int) -> list[int]:
    """The worker processes of a coordinator."""
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return []


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def unfinished(folder: Path) -> bool:
    """Whether a checkpoint is being written now."""
    try:
        return any(name.endswith(".part") for name in os.listdir(folder / "checkpoints"))
    except OSError:
        return False


def progress(folder: Path) -> int:
    """The round of the newest checkpoint; 0 if there is none."""
    try:
        names = os.listdir(folder / "checkpoints")
    except OSError:
        return 0
    return max((int(n[6:14]) for n in names if n.startswith("round-") and n[-1] == "n"), default=0)


def kill_once(
    folder: Path, generator: random.Random, seconds: float, rounds: int, more: Sequence[str]
) -> dict[str, Any] | None:
    """Start or resume a run and kill it; None if it ended first."""
    process = start_run(folder, *more, *engine(generator))
    plan = generator.choice(["any time", "between writes", "inside a write", "inside a write"])
    goal = generator.randint(min(progress(folder), rounds - 1), rounds - 1)
    delay = generator.uniform(0.0, seconds if plan == "any time" else seconds / rounds)
    while plan != "any time" and process.poll() is None and progress(folder) < goal:
        time.sleep(0.001)
    limit = time.monotonic() + delay
    while process.poll() is None and time.monotonic() < limit:
        time.sleep(0.0002)
    while plan == "inside a write" and process.poll() is None and not unfinished(folder):
        time.sleep(0.0002)
    workers = children(process.pid)
    process.kill()
    code, _, _ = wait_for_end(process)
    if code == 0:
        return None
    left = unfinished(folder)
    patience = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < patience:
        time.sleep(0.01)
    return {
        "code": code,
        "plan": plan,
        "left an unfinished file": left,
        "workers left behind": sum(map(alive, workers)),
        "folder": folder.exists(),
        "after round": progress(folder),
    }


def coordinator(count: int, seed: int, where: Path, more: Sequence[str] = ()) -> dict[str, Any]:
    """Kill and resume runs until they end."""
    start = time.monotonic()
    code, whole, said = result(start_run(where / "straight", *more))
    seconds = time.monotonic() - start
    assert code == 0, said
    straight, rounds = whole["fingerprint"], whole["rounds"]
    generator = random.Random(seed)
    runs: list[dict[str, Any]] = []
    kills: list[dict[str, Any]] = []
    while len(runs) < count:
        folder = where / f"run-{len(runs)}"
        hits = []
        for _ in range(generator.randint(1, 3)):
            hit = kill_once(folder, generator, seconds, rounds, more)
            if hit is None:
                break
            hits.append(hit)
        if not hits:
            continue  # the run ended before the kill, so it proves nothing
        code, fingerprint, said = wait_for_end(start_run(folder, *more, *engine(generator)))
        runs.append({"kills": len(hits), "same": fingerprint == straight, "code": code})
        runs[-1] |= {"said": said} if said else {}
        kills += hits
        print(f"{len(runs)}/{count}: {len(hits)} kills, {runs[-1]}", flush=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    return {
        "fingerprint": straight,
        "runs": len(runs),
        "runs with the straight run's fingerprint": sum(run["same"] for run in runs),
        "kills": len(kills),
        "kills inside the write of a checkpoint": sum(k["left an unfinished file"] for k in kills),
        "kills before the run had a folder": sum(not k["folder"] for k in kills),
        "kills before the first checkpoint": sum(not k["after round"] for k in kills),
        "kills by the round of the newest checkpoint": dict(
            sorted(Counter(k["after round"] for k in kills).items())
        ),
        "kills by plan": dict(Counter(k["plan"] for k in kills)),
        "workers left behind": sum(k["workers left behind"] for k in kills),
        "exit codes": dict(Counter(str(run["code"]) for run in runs)),
        "said on standard error": sorted({run["said"] for run in runs if "said" in run}),
        "seconds of the straight run": round(seconds, 1),
    }


def workers(count: int, seed: int, where: Path, more: Sequence[str] = LONG) -> dict[str, Any]:
    """Kill the workers of runs whose coordinator lives."""
    code, found, said = result(start_run(where / "straight", *more))
    assert code == 0, said
    straight, ready = found["fingerprint"], found["seconds_setup"]
    generator = random.Random(seed)
    runs: list[dict[str, Any]] = []
    kills = 0
    while kills < count:
        folder = where / f"run-{len(runs)}"
        process = start_run(folder, *more)
        here = 0
        while process.poll() is None and kills + here < count:
            time.sleep(generator.uniform(0.0, 2 * ready))
            some = children(process.pid)
            if some:
                try:
                    os.kill(generator.choice(some), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                here += 1
        code, fingerprint, said = wait_for_end(process)
        kills += here
        runs.append({"kills": here, "same": fingerprint == straight, "code": code, "said": said})
        print(f"{kills}/{count}: {runs[-1]}", flush=True)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    return {
        "fingerprint": straight,
        "runs": len(runs),
        "runs with the straight run's fingerprint": sum(run["same"] for run in runs),
        "kills": kills,
        "mean seconds between kills": round(ready, 2),
        "exit codes": dict(Counter(str(run["code"]) for run in runs)),
        "said on standard error": sorted({run["said"] for run in runs if run["said"]}),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", choices=["coordinator", "workers"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    command = f"python -m chaos.kills {given.what} --count {given.count} --seed {given.seed}"
    with tempfile.TemporaryDirectory() as folder:
        found = globals()[given.what](given.count, given.seed, Path(folder))
    result = {**machine(command, "mmfl", "numpy", "torch"), "seed": given.seed, **found}
    print(json.dumps(result, indent=1))
    save(result, given.out)
    same = result["runs"] == result["runs with the straight run's fingerprint"]
    sys.exit(0 if same and not result.get("workers left behind") else 1)


if __name__ == "__main__":
    main()
