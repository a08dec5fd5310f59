"""Do several runs at once fill the cores? `mmfl compare` with `--jobs 1` and `--jobs auto`.

    make bench-sweeps

"first run": the experiment of `make run`, 3 clients per round, 6 runs. "small": 2 clients per
round, a few steps of a small dense network each, 24 runs. Results are bit-identical; only the time
differs.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.harness import HOUSE, arguments, machine, save, spread

SMALL = """
rounds = 60
clients = { count = 20, active = 0.1 }
[local]
steps = 4
batch_size = 16
lr = 0.1
[[tasks]]
name = "letters"
dataset = "letters"
model = { kind = "mlp", hidden = [32] }
partition = { kind = "iid", points = 100 }
[[tasks]]
name = "digits"
dataset = "mnist_small"
model = { kind = "mlp", hidden = [32] }
partition = { kind = "iid", points = 40 }
"""
SEEDS = {"first run": "0-1", "small": "0-7"}


def measure(config: Path, seeds: str, jobs: str, out: Path) -> tuple[float, float]:
    """Seconds of the whole command, and how many cores it used on average."""
    command = [
        str(Path(sys.executable).with_name("mmfl")),
        "compare",
        str(config),
        "--seeds",
        seeds,
    ]
    command += ["--vary", "allocator.kind=fed_fair,uniform,round_robin", "--jobs", jobs]
    start, before = time.perf_counter(), _processor_time()
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    return seconds, (_processor_time() - before) / seconds


def _medians(found: list[tuple[float, float]]) -> dict[str, float]:
    seconds, cores = zip(*found, strict=True)
    return {"seconds": median(seconds), "cores used": median(cores)}


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    given = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.toml").write_text(SMALL)
        configs = {
            "first run": HOUSE / "experiments/first_run/first_run.toml",
            "small": folder / "small.toml",
        }
        for sweep, config in configs.items():
            pairs = []
            for repeat in range(given.repeats):
                found = [
                    measure(config, SEEDS[sweep], jobs, folder / f"{sweep}-{repeat}-{jobs}")
                    for jobs in ("1", "auto")
                ]
                pairs.append(found)
                print(f"{sweep} {repeat + 1}: (seconds, cores) {found}", flush=True)
            results[sweep] = {
                "one run at a time": _medians([one for one, _ in pairs]),
                "auto": _medians([other for _, other in pairs]),
                "faster by": spread([one / other for (one, _), (other, _) in pairs]),
            }
    save(machine("make bench-sweeps", "mmfl", "torch") | {"sweeps": results}, given.out)


if __name__ == "__main__":
    main()
