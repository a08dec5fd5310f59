"""Finished runs as numbers. Reads run directories; trains nothing."""

from __future__ import annotations

from mmfl.report.curves import Curves
from mmfl.report.statistics import Paired, Summary, Variant, paired, summary

__all__ = ["Curves", "Paired", "Summary", "Variant", "paired", "summary"]
