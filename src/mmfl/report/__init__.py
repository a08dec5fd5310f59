"""Finished runs as numbers, tables and a figure. Reads run directories; trains nothing."""

from __future__ import annotations

from mmfl.report.collect import Collection, StoredRun, collect
from mmfl.report.curves import Curves
from mmfl.report.grid import Cell, Column, Grid, make_text, markdown_table
from mmfl.report.remarks import Remark, failed_runs, remarks
from mmfl.report.statistics import (
    Paired,
    Quantity,
    Spread,
    Summary,
    Variant,
    compare_variants,
    confidence_interval,
    select_comparable,
    spread,
    summary,
    variants,
)
from mmfl.report.tables import Differences, Results, data, quantities
from mmfl.report.words import amount, amounts, counts, escape_markdown, number, thin

__all__ = [
    "Cell",
    "Collection",
    "Column",
    "Curves",
    "Differences",
    "Grid",
    "Paired",
    "Quantity",
    "Remark",
    "Results",
    "Spread",
    "StoredRun",
    "Summary",
    "Variant",
    "amount",
    "amounts",
    "collect",
    "compare_variants",
    "confidence_interval",
    "counts",
    "data",
    "escape_markdown",
    "failed_runs",
    "make_text",
    "markdown_table",
    "number",
    "quantities",
    "remarks",
    "select_comparable",
    "spread",
    "summary",
    "thin",
    "variants",
]
