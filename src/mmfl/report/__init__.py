"""Finished runs as numbers, tables and a picture. Reads run directories; trains nothing."""

from __future__ import annotations

from mmfl.report.curves import Curves
from mmfl.report.figures import comparison
from mmfl.report.statistics import Paired, Summary, Variant, paired, summary, variants
from mmfl.report.tables import Differences, Results, data, quantities

__all__ = [
    "Curves",
    "Differences",
    "Paired",
    "Results",
    "Summary",
    "Variant",
    "comparison",
    "data",
    "paired",
    "quantities",
    "summary",
    "variants",
]
