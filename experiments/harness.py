"""Shared code of the experiments: options, runs, and the machine that they ran on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mmfl import Run
from mmfl.comparison import Comparison
from mmfl.runs import RunStore

__all__ = ["HOUSE", "arguments", "date_and_machine", "describe_recording", "run_missing"]

HOUSE = Path(__file__).resolve().parent.parent


def arguments(doc: str | None, script: str) -> argparse.ArgumentParser:
    """A parser that shows a module's docstring, with --out (default: results/ next to it)."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    results = Path(script).resolve().parent / "results"
    parser.add_argument("--out", type=Path, default=results, help="a folder for the results")
    return parser


def run_missing(comparison: Comparison) -> dict[str, dict[int, Run]]:
    """Run what is missing, and return all runs by variant and seed."""
    for planned, step in comparison.go():
        if step is None:
            sys.stderr.write(f"{planned.name}: done\n")
    return comparison.results()


def describe_recording(run: Run) -> str:
    """When a run was made, and on which machine."""
    with closing(RunStore.open(run.folder)) as store:
        return date_and_machine(store.environment())


def date_and_machine(environment: Mapping[str, Any]) -> str:
    """A run's environment in short, such as "2026-11-16, 2 cores of an AMD EPYC"."""
    at = environment
    return f"{at['started'][:10]}, {at['cores']} cores of an {at['processor']}"
