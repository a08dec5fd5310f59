"""Where bids come from: files, and models of what clients ask."""

from __future__ import annotations

from mmfl.market.bids_io.distributions import (
    DISTRIBUTIONS,
    Beta,
    Distribution,
    Exponential,
    IncreasingLinear,
    TruncatedNormal,
    UniformBids,
    cdf_of,
)
from mmfl.market.bids_io.files import Csv, read_bids, write_awards, write_rows
from mmfl.market.bids_io.simulated import Correlation, Market, bytes_needed, ids_of, simulated_bids

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "Correlation",
    "Csv",
    "Distribution",
    "Exponential",
    "IncreasingLinear",
    "Market",
    "TruncatedNormal",
    "UniformBids",
    "bytes_needed",
    "cdf_of",
    "ids_of",
    "read_bids",
    "simulated_bids",
    "write_awards",
    "write_rows",
]
