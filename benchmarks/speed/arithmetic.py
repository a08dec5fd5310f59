"""The limit of the hardware: the operations of a workload, and how many the cores can do.

    python -m benchmarks.speed.arithmetic A --processes 2

Counts the multiplications and additions that the convolutions and matrix products of a training
step need (forwards and backwards, done directly), and measures how many of them the same number of
single-threaded processes do per second in large float32 matrix products, the best case.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time

from benchmarks.harness import HOUSE, module
from benchmarks.speed.workloads import WORKLOADS, Workload

SIZE, SECONDS = 1024, 3.0


def per_sample(workload: Workload) -> float:
    """Floating-point operations of one training example."""
    import torch
    from torch.nn import functional
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(workload.batch_size, *workload.shape)
    y = torch.zeros(workload.batch_size, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        functional.cross_entropy(workload.build()(x), y).backward()
    return float(counter.get_total_flops() / workload.batch_size)


def multiply() -> None:
    """One process: prints how many operations it did per second."""
    import torch

    torch.set_num_threads(1)
    a = torch.randn(SIZE, SIZE)
    b, out = a.clone(), torch.empty_like(a)
    torch.mm(a, b, out=out)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        torch.mm(a, b, out=out)
        count += 1
    print(2 * SIZE**3 * count / (time.perf_counter() - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="not used; every script takes it")
    parser.add_argument("--one", action="store_true", help="be one of the processes")
    given = parser.parse_args()
    if given.one:
        multiply()
        return
    me = module("benchmarks.speed.arithmetic", given.workload, "--one")
    running = [
        subprocess.Popen(me, stdout=subprocess.PIPE, cwd=HOUSE) for _ in range(given.processes)
    ]
    total = sum(float(process.communicate()[0]) for process in running)
    workload = WORKLOADS[given.workload]
    need = per_sample(workload)
    seconds = workload.samples * need / total
    print(
        json.dumps(
            {
                "workload": workload.name,
                "rounds": [seconds],
                "samples": workload.samples,
                "clients": workload.clients,
                "settings": {"GFLOP/s": total / 1e9, "MFLOP per example": need / 1e6},
            }
        )
    )


if __name__ == "__main__":
    main()
