"""A small family to test configuration with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from mmfl.config import (
    Count,
    Family,
    Natural,
    NonNegative,
    Positive,
    Share,
    Text,
    component,
    parse,
)
from mmfl.errors import ConfigError
from support.helpers import one_line


@component
class Circle:
    radius: Positive = 1.0

    def area(self) -> float:
        return math.pi * self.radius**2


@component
class Box:
    width: Positive
    height: Positive = 2.0
    label: Text | None = None

    def area(self) -> float:
        return self.width * self.height


SHAPES = Family(
    name="shape", table={"box": Box, "circle": Circle}, needs=("area",), scalar=("circle", "radius")
)
STRICT = Family(name="solid", table={"box": Box}, needs=("area",))


@component
class Tile:
    shape: Annotated[Any, SHAPES] = Circle()
    count: Count = 1


@component
class Floor:
    tiles: tuple[Tile, ...] = ()
    first: Tile = Tile()
    solid: Annotated[Any, STRICT] = Box(1.0)


@component
class Numbers:
    count: Count = 1
    natural: Natural = 0
    positive: Positive = 1.0
    non_negative: NonNegative = 0.0
    share: Share = 1.0
    text: Text = "x"


def sentence(act: Callable[[], object]) -> str:
    """The message of the `ConfigError` that `act` must raise: one line."""
    return one_line(ConfigError, act)


def shape_error(value: object) -> str:
    return sentence(lambda: parse(Tile, {"shape": value}))
