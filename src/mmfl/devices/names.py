"""The names of devices, as in torch."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict

from mmfl.config import short

__all__ = ["DeviceName", "get_device_type"]

_PATTERN = "^(auto|cpu|mps|cuda(:(0|[1-9][0-9]{0,2}))?)$"


def _check_name(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(_PATTERN, value):
        raise ValueError(f'must be "cpu", "cuda", "cuda:1", "mps" or "auto", got {short(value)}')
    return value


DeviceName = Annotated[
    str, Strict(), BeforeValidator(_check_name), Field(json_schema_extra={"pattern": _PATTERN})
]


def get_device_type(name: str) -> str:
    """A device's name without its number.

    >>> get_device_type("cuda:1")
    'cuda'
    """
    return name.partition(":")[0]
