"""Shared code of the benchmarks: options, separate processes, and the format of the results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["HOUSE", "arguments", "commit", "machine", "module", "run_json", "save", "spread"]

HOUSE = Path(__file__).resolve().parent.parent
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def arguments(doc: str | None, *, repeats: int | None = None) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark: --out, and --repeats if it repeats."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    return parser


def module(name: str, *options: str) -> list[str]:
    """The command that runs a module of this repository; run it in the folder `HOUSE`."""
    return [sys.executable, "-m", name, *options]


def run_json(command: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a process, and return the JSON object that it prints last."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=HOUSE, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def save(result: Mapping[str, Any], out: Path | None) -> None:
    """Write results as JSON, if a file is given."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(f"{json.dumps(result, indent=1)}\n", encoding="utf-8")


def commit() -> str:
    """The commit of the sources, with "-dirty" if they were changed since; "" outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOUSE, check=False)
    return done.stdout.strip()


def machine(command: str, *packages: str) -> dict[str, Any]:
    """How and where a measurement was made: command, commit, date, hardware and versions."""
    return {
        "command": command,
        "commit": commit(),
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
