"""``clients.active``: a rate, a rate per client, or a table of rates over the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from mmfl.config import (
    Count,
    build_component,
    check_shares,
    component,
    one_or_several,
    short,
)

__all__ = ["Active", "Availability", "Rates"]

Rates = float | tuple[float, ...]
"""The share of clients that are active, or the rate of each."""


def _row(value: Any) -> Rates:
    return check_shares(value, "a rate in [0, 1]")


@component
class Availability:
    """Rates that change over the rounds, such as day and night.

    Attributes:
        rates: A row for each part of the cycle: the share of clients that are active in it, or a
            list with a rate for each client. After the last row the first follows again.
        rounds: How many rounds a row lasts.
    """

    rates: Annotated[
        tuple[Annotated[Rates, BeforeValidator(_row), one_or_several(minimum=0, maximum=1)], ...],
        Field(min_length=1),
    ]
    rounds: Count = 1

    def __post_init__(self) -> None:
        if not any(map(_is_positive, self.rates)):
            raise ValueError("rates must not all be 0, otherwise no client ever trains")


def _active(value: Any) -> Rates | Availability:
    if isinstance(value, Availability):
        return value
    if isinstance(value, Mapping):
        found: Availability = build_component(Availability, value, bare=False)
        return found
    rates = check_shares(value, "a rate in (0, 1]")
    if not _is_positive(rates):
        raise ValueError(
            f"must be greater than 0, otherwise no client ever trains; got {short(value)}"
        )
    return rates


def _is_positive(rates: Rates) -> bool:
    return any(rates) if isinstance(rates, tuple) else rates > 0


_RATE = {"type": "number", "minimum": 0, "maximum": 1}
_LIST = {"type": "array", "items": _RATE, "contains": {"exclusiveMinimum": 0}}

Active = Annotated[
    Annotated[float, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})]
    | Annotated[tuple[float, ...], WithJsonSchema(_LIST)]
    | Availability,
    BeforeValidator(_active),
]
