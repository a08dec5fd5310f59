"""The limit: plain PyTorch loops without a federation around them, one thread per process.

    python -m benchmarks.speed.bare A --processes 2 --rounds 3 --precision float32

A process does one core's share of a round: it sets the weights, trains on a client's examples, and
continues with the next client. Nothing is checked, summed or sent. The fastest usual way to write
such a loop counts (memory layout; for small models one flat vector of weights).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from benchmarks.harness import HOUSE, module
from benchmarks.speed.workloads import WORKLOADS, Workload

VARIANTS = {"A": ("plain", "channels_last"), "B": ("flat",), "R": ("plain", "channels_last")}


def client_of(workload: Workload, variant: str, precision: str) -> Callable[[int], None]:
    """A function that trains one client from the first weights."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels = workload.data()
    x = torch.from_numpy(images).float().div_(255).sub_(0.5).div_(0.5)
    y = torch.from_numpy(labels)
    model = workload.build()
    if variant == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.permute(0, 2, 3, 1).contiguous()
    weights = list(model.parameters())
    flat = torch.cat([w.detach().reshape(-1) for w in weights])
    gradient, at = torch.zeros_like(flat), 0
    if variant == "flat":
        for w in weights:
            part = slice(at, at + w.numel())
            w.data, w.grad, at = flat[part].view_as(w), gradient[part].view_as(w), part.stop
    first = [w.detach().clone() for w in weights]
    whole = flat.clone()

    def step(rows: Any) -> None:
        batch = x[rows].permute(0, 3, 1, 2) if variant == "channels_last" else x[rows]
        bf16 = torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
        with bf16:
            loss = functional.cross_entropy(model(batch), y[rows])
        loss.backward()

    def flat_client(k: int) -> None:
        flat.copy_(whole)
        for rows in batches(workload, k):
            gradient.zero_()
            step(rows)
            flat.add_(gradient, alpha=-workload.lr)

    def client(k: int) -> None:
        with torch.no_grad():
            for w, before in zip(weights, first, strict=True):
                w.copy_(before)
        for rows in batches(workload, k):
            for w in weights:
                w.grad = None
            step(rows)
            with torch.no_grad():
                for w in weights:
                    assert w.grad is not None
                    w.add_(w.grad, alpha=-workload.lr)

    return flat_client if variant == "flat" else client


def batches(workload: Workload, k: int) -> Any:
    import torch

    for _ in range(workload.epochs):
        order = torch.randperm(workload.examples) + k * workload.examples
        yield from order.split(workload.batch_size)


def one(workload: Workload, variant: str, precision: str, rounds: int, share: range) -> None:
    """One process: says that it is ready, waits for each signal, prints how long the round took."""
    client = client_of(workload, variant, precision)
    for k in share[:2]:
        client(k)
    print("ready", flush=True)
    for _ in range(rounds):
        sys.stdin.readline()
        start = time.perf_counter()
        for k in share:
            client(k)
        print(time.perf_counter() - start, flush=True)


def measure(
    workload: Workload, variant: str, precision: str, rounds: int, processes: int
) -> list[float]:
    """Seconds of each round: those of the slowest process."""
    options = ["--variant", variant, "--precision", precision, "--rounds", str(rounds)]
    options += ["--processes", str(processes), "--clients", str(workload.clients), "--share"]
    me, pipe = module("benchmarks.speed.bare", workload.name, *options), subprocess.PIPE
    running = [
        subprocess.Popen([*me, str(n)], stdin=pipe, stdout=pipe, text=True, cwd=HOUSE)
        for n in range(processes)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        found = []
        for _ in range(rounds):
            for process in running:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            found.append(
                max(float(process.stdout.readline()) for process in running if process.stdout)
            )
        return found
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    parser.add_argument("--clients", type=int, help="only this many, where a round takes minutes")
    parser.add_argument("--variant", help="only this one")
    parser.add_argument("--share", type=int, help="be one of the processes")
    given = parser.parse_args()
    workload = WORKLOADS[given.workload]
    workload = dataclasses.replace(workload, clients=given.clients or workload.clients)
    if given.share is not None:
        share = range(given.share, workload.clients, given.processes)
        one(workload, given.variant, given.precision, given.rounds, share)
        return
    variants = (given.variant,) if given.variant else VARIANTS[workload.name]
    rounds = {
        v: measure(workload, v, given.precision, given.rounds, given.processes) for v in variants
    }
    best = min(rounds, key=lambda v: sum(rounds[v]))
    found = {"workload": workload.name, "variant": best, "rounds": rounds[best], "all": rounds}
    print(json.dumps(found | {"samples": workload.samples, "clients": workload.clients}))


if __name__ == "__main__":
    main()
