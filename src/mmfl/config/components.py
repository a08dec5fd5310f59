"""Components: frozen, checked values whose fields are hyper-parameters, and the fields' types."""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Annotated, Any, TypeVar, dataclass_transform

import numpy as np
import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field, Strict, ValidationError

from mmfl.config.messages import find_cause, sentence, short
from mmfl.errors import ConfigError

__all__ = [
    "WRITE_IF_SET",
    "Chance",
    "Count",
    "Finite",
    "Flag",
    "Natural",
    "NonNegative",
    "Positive",
    "Share",
    "Text",
    "check_shares",
    "component",
]

T = TypeVar("T")

MOST = sys.float_info.max

WRITE_IF_SET = object()
"""In a field's annotation: where it has its default, `mmfl.config.dump` leaves it out.

It is for settings that were added later: experiments without them keep their digests, so that runs
of earlier versions can still be resumed.
"""

Count = Annotated[int, Strict(), Field(ge=1, lt=2**31)]
Natural = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Flag = Annotated[bool, Strict()]
Finite = Annotated[float, Strict(), Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, le=MOST, allow_inf_nan=False)]
NonNegative = Annotated[
    float, Strict(), Field(ge=0, le=MOST, allow_inf_nan=False), AfterValidator(abs)
]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Chance = Annotated[float, Strict(), Field(ge=0, le=1)]
Text = Annotated[str, Strict(), Field(min_length=1)]


def check_shares(value: Any, rule: str) -> float | tuple[float, ...]:
    """A number in [0, 1], or a list of one per client; `rule` says what the number must be."""
    numbers = value if isinstance(value, list | tuple) else [value]
    if not numbers or not all(map(_is_share, numbers)):
        raise ValueError(f"must be {rule}, or a list with one per client, got {short(value)}")
    return tuple(map(float, numbers)) if isinstance(value, list | tuple) else float(value)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _to_plain(value: Any) -> Any:
    """A number of NumPy, such as ``labels.max()``, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def component(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, checked value; a wrong argument raises a one-sentence `ConfigError`."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls)
    checked_init = made.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        names = [field.name for field in dataclasses.fields(made) if field.init]
        if len(args) > len(names):
            raise ConfigError(f"{made.__name__} takes at most {len(names)} values, got {len(args)}")
        plain = {name: _to_plain(value) for name, value in kwargs.items()}
        try:
            checked_init(self, **dict(zip(names, map(_to_plain, args), strict=False)), **plain)
        except ValidationError as error:
            raise ConfigError(f"{made.__name__}: {sentence(error, made)}") from find_cause(
                error, made
            )

    __init__.__wrapped__ = checked_init  # type: ignore[attr-defined]
    made.__init__ = __init__
    return typing.cast("type[T]", made)
