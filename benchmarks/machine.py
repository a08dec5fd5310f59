"""What a measurement was made on and with, as every file of results says it."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["machine"]

_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def machine(command: str, *packages: str) -> dict[str, Any]:
    """Command, date, hardware and versions."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _cpu("model name"),
        "instructions": [flag for flag in _FLAGS if flag in _cpu("flags").split()],
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }


def _cpu(what: str) -> str:
    lines = (
        Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    )
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith(what))
    return next(found, platform.processor())
