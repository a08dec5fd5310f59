"""Where bids come from: files, and models of what clients ask."""

from __future__ import annotations

from mmfl.market.sources.distributions import (
    DISTRIBUTIONS,
    Beta,
    Distribution,
    Exponential,
    IncreasingLinear,
    TruncatedNormal,
    Uniform,
    cdf_of,
)
from mmfl.market.sources.files import Csv, read_bids, write_awards
from mmfl.market.sources.simulated import Market, simulated_bids

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "Csv",
    "Distribution",
    "Exponential",
    "IncreasingLinear",
    "Market",
    "TruncatedNormal",
    "Uniform",
    "cdf_of",
    "read_bids",
    "simulated_bids",
    "write_awards",
]
