"""How many processors this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from mmfl.system.cgroups import OWN, ROOT, groups, numbers_in

__all__ = ["count_usable"]


def count_usable(root: Path = ROOT, own: Path = OWN) -> int:
    """The cores that it may run on, or fewer if its control group's quota allows less.

    A quota of 1.5 processors keeps two busy three quarters of the time: it counts as two.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = cores or 1
    for version, group in groups("cpu", root, own):
        if version == 2:
            quota = numbers_in(group / "cpu.max")  # "150000 100000", or "max 100000": no limit
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")  # a quota of -1: no limit
            quota = [number for name in names for number in numbers_in(group / name)]
        if len(quota) == 2 and quota[1]:
            found = min(found, math.ceil(quota[0] / quota[1]))
    return max(1, found)
