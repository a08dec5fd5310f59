"""Shared code of the peers' scripts: arguments, clocks and output.

The first round of a run includes everything that is made once (imports, processes, caches). The
other rounds are timed, each from the end of the previous round to its own end.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workloads import WORKLOADS, Workload

__all__ = ["Clock", "arguments", "examples", "norm", "peak_rss_mb", "report", "started"]


def arguments(description: str) -> argparse.ArgumentParser:
    """The arguments that every script takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("workload", choices=sorted(WORKLOADS), help="see workloads.py")
    parser.add_argument("--rounds", type=int, default=4, help="timed rounds, after the first one")
    parser.add_argument("--first-round-only", action="store_true", help="stop after the first")
    parser.add_argument("--started", type=float, help="when the run began, in Unix time")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    return parser


def started() -> float:
    """When this process was created, in Unix time, to a hundredth of a second."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = float(fields[19]) / os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - (uptime - since_boot)


class Clock:
    """Notes when rounds end.

    Attributes:
        ends: In Unix time, one for each round.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []

    def round_ended(self) -> None:
        """Record the end of a round: the new model is ready."""
        self.ends.append(time.time())

    @property
    def rounds(self) -> list[float]:
        """Seconds of each round after the first."""
        return [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]


@functools.cache
def examples(name: str) -> tuple[Tensor, Tensor]:
    """All images of a workload as float32 in [-1, 1], and labels; made once in a process."""
    images, labels = WORKLOADS[name].data()
    return torch.from_numpy((images.astype(np.float32) / 255 - 0.5) / 0.5), torch.from_numpy(labels)


def norm(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """Euclidean norm of the change of the parameters."""
    squares = [(after[key].double() - old.double()).square().sum() for key, old in before.items()]
    return float(torch.stack(squares).sum().sqrt())


def peak_rss_mb() -> float | None:
    """The sum of the peaks of resident memory of this process and its descendants, in MiB.

    A page that several processes share counts for each of them. None if there is no /proc.
    """
    peaks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it ended in the meantime
            continue
        pid = int(lines["Pid"])
        parents[pid] = int(lines["PPid"])
        peaks[pid] = int(lines["VmHWM"].split()[0]) if "VmHWM" in lines else 0
    if os.getpid() not in peaks:
        return None
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(peaks[pid] for pid in family) / 1024


def report(
    package: str,
    workload: Workload,
    began: float,
    clock: Clock,
    settings: dict[str, Any],
    memory: float | None,
    moved: float,
) -> None:
    """Print the results as one line of JSON."""
    result = {
        "framework": package,
        "version": version(package),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "workload": workload.name,
        "settings": settings,
        "rounds": clock.rounds,
        "first_round_after": clock.ends[0] - began,
        "samples": workload.samples,
        "clients": workload.clients,
        "peak_rss_mb": memory,
        "final_norm": moved,
    }
    print(json.dumps(result), flush=True)
