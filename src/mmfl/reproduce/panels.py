"""What a study's figure shows, as data. `PANELS` is the family's table.

The figures themselves are drawn by `mmfl.report.figures`.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import Field

from mmfl.config import Count, Family, Text, component

__all__ = ["PANELS", "Against", "Bars", "Lines", "Map", "Panel"]


class Panel(Protocol):
    """One figure of several."""

    @property
    def title(self) -> str:
        """What stands above it."""
        ...

    @property
    def setting(self) -> str:
        """Which runs it shows."""
        ...


@component
class Lines:
    """A quantity over rounds: the mean over seeds, in a band from the lowest to the highest.

    Attributes:
        title: What stands above it.
        setting: Which runs.
        quantity: "worst", "mean", "variance" or "task NAME".
        variants: A line for each; by default for all.
    """

    title: Text
    setting: Text
    quantity: Text = "worst"
    variants: tuple[Text, ...] | None = None


@component
class Bars:
    """A quantity at some rounds, and its mean over all rounds, with bars from lowest to highest.

    Attributes:
        title: What stands above it.
        setting: Which runs.
        quantity: "worst", "mean", "variance" or "task NAME".
        at: Rounds of the paper's 120.
        variants: A bar for each; by default for all.
    """

    title: Text
    setting: Text
    quantity: Text = "variance"
    at: Annotated[tuple[Count, ...], Field(min_length=1)] = (10, 60, 120)
    variants: tuple[Text, ...] | None = None


@component
class Map:
    """Which task each client trained in each round, of the first seed.

    Attributes:
        title: What stands above it.
        setting: Which runs.
        variant: Which variant.
    """

    title: Text
    setting: Text
    variant: Text


@component
class Against:
    """Final values of quantities, one point per variant, in order.

    Attributes:
        title: What stands above it.
        setting: Which runs.
        variants: From left to right.
        quantities: A line for each.
    """

    title: Text
    setting: Text
    variants: Annotated[tuple[Text, ...], Field(min_length=2)]
    quantities: Annotated[tuple[Text, ...], Field(min_length=1)] = ("worst", "mean")


PANELS = Family(
    name="panel",
    table={"against": Against, "bars": Bars, "lines": Lines, "map": Map},
    needs=("title",),
)
