"""Is torch.compile worth it? A step of each network, eager and compiled, and the compile time.

    make bench-compiled

One thread, as in our workers. Each process compiles separately, once per batch shape.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.harness import arguments, machine, save, spread
from benchmarks.speed.workloads import WORKLOADS, Workload

REPEATS, STEPS = 25, 3


def stepper(workload: Workload, *, compiled: bool) -> Callable[[], float]:
    """A function that makes one step of SGD on one batch."""
    torch.manual_seed(0)
    network = workload.build()
    parameters: list[torch.Tensor] = list(network.parameters())
    forward = torch.compile(network) if compiled else network
    x = torch.randn(workload.batch_size, *workload.shape)
    x = x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, workload.classes, (workload.batch_size,))

    def step() -> float:
        for parameter in parameters:
            parameter.grad = None
        loss = torch.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        gradients = [p.grad for p in parameters if p.grad is not None]
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-workload.lr)
        return loss.item()

    return step


def time_step(step: Callable[[], float], times: int = 1) -> float:
    """Seconds of a step."""
    start = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - start) / times


def measure(workload: Workload, repeats: int) -> dict[str, Any]:
    """Seconds of eager and compiled steps, which alternate, and of the first compiled one."""
    eager, compiled = (stepper(workload, compiled=c) for c in (False, True))
    eager()
    first = time_step(compiled)
    compiled()
    pairs = [(time_step(eager, STEPS), time_step(compiled, STEPS)) for _ in range(repeats)]
    return {
        "compiling": first,
        "eager step": median(one for one, _ in pairs),
        "compiled step": median(other for _, other in pairs),
        "faster by": spread([one / other for one, other in pairs]),
    }


def main() -> None:
    parser = arguments(__doc__, repeats=REPEATS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as empty:  # forget what was compiled before
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
        found = {name: measure(WORKLOADS[name], given.repeats) for name in ("A", "B", "R")}
    for name, one in found.items():
        print(f"{name}: compiling {one['compiling']:.0f} s, then {one['faster by']}")
    save(machine("make bench-compiled", "torch") | {"networks": found}, given.out)


if __name__ == "__main__":
    main()
