"""Shared code of the tables: curves, and how far they are below their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.convergence import Sample

__all__ = ["EVEN", "Points", "find_worst", "format_quotient", "pick_points", "points"]

EVEN = 1 + 1e-6  # a quotient of 1, with rounding errors of float32

Points = tuple[tuple[float, ...], ...]


def points(rows: npt.NDArray[np.float64]) -> Points:
    """A client's examples in the form that a problem takes."""
    return tuple(map(tuple, rows.tolist()))


def find_worst(measured: Sample, bound: npt.NDArray[Any]) -> dict[str, float]:
    """The largest quotient, its round, and how many standard errors it is above 1."""
    if len(bound) < 2:
        return {"quotient": 0.0, "t": 0, "standard_errors": 0.0}
    mean, error = measured.mean[1:], measured.standard_error[1:]
    at = int((mean / bound[1:]).argmax())
    above = (mean[at] - bound[at + 1]) / max(error[at], 0.01 * mean[at])  # at most 100
    return {
        "quotient": float(mean[at] / bound[at + 1]),
        "t": at + 1,
        "standard_errors": max(float(above), 0.0),
    }


def pick_points(measured: Sample, bounds: Mapping[str, npt.NDArray[Any]]) -> dict[str, list[float]]:
    """Curves at about 30 times, equally spaced on a logarithmic axis, to five digits."""
    T = len(measured.mean) - 1
    t = np.unique(np.geomspace(1, max(T, 1), 36).round().astype(int))
    t = t[t <= T]
    found = {"mean": measured.mean, "standard_error": measured.standard_error, **bounds}
    short = {name: [float(f"{x:.5g}") for x in curve[t]] for name, curve in found.items()}
    return {"t": t.tolist(), **short}


def format_quotient(value: float) -> str:
    """A measured value over its bound, bold where the bound is too low."""
    return f"**{value:.3g}**" if value > EVEN else f"{value:.2g}"
