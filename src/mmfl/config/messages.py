"""One sentence for each mistake in a configuration: which field, what rule, what was given."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from mmfl.errors import did_you_mean, plural, text_of

__all__ = ["location", "problem", "sentence", "sentences", "short"]

_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_WORDS = {
    "dataclass_type": "a table",
    "dataclass_exact_type": "a table",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}


def problem(message: str, *where: str | int) -> PydanticCustomError:
    """An error that pydantic places at a field, and `location` deeper inside it."""
    return PydanticCustomError("problem", "{message}", {"message": message, "where": list(where)})


def location(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Where an error is: the way down from the root."""
    return (*error["loc"], *error.get("ctx", {}).get("where", ()))


def sentence(error: ValidationError, root: type, *, nested: bool = False) -> str:
    """The first problem (an unknown key before all others), and how many more there are.

    `nested`: only the rule, since the sentence around it says where and how many.
    """
    if nested:
        return _rule(_sorted_errors(error)[0], root)
    first, *others = sentences(error, root)
    return f"{first} (and {plural(len(others), 'more error')})" if others else first


def sentences(error: ValidationError, root: type) -> list[str]:
    """A sentence for each problem, unknown keys first."""
    found = []
    for one in _sorted_errors(error):
        rule, where = _rule(one, root), _path(location(one))
        link = " " if rule.startswith(("must ", "is ", "needs ")) else ": "
        found.append(f"{where}{link}{rule}" if where else rule)
    return found


def _sorted_errors(error: ValidationError) -> list[Any]:
    errors: list[Any] = list(error.errors(include_url=False))
    return sorted(errors, key=lambda one: one["type"] not in _UNKNOWN)


def short(value: object) -> str:
    """A value as it may stand in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _rule(error: Any, root: type) -> str:
    kind, where = error["type"], location(error)
    if kind in _UNKNOWN:
        return f"is not a known key; {did_you_mean(str(where[-1]), _keys_at(root, where[:-1]))}"
    if kind in ("missing", "missing_argument"):
        return "is missing"
    if kind == "problem":
        return str(error["msg"])
    if kind == "value_error":
        return text_of(error["ctx"]["error"])
    rule = re.sub(r"^(Input|String|Tuple|List|Value) should ", "", error["msg"])
    rule = f"be {_WORDS[kind]}" if kind in _WORDS else rule
    rule = rule.replace(" after validation", "")
    return f"must {rule}, got {short(error['input'])}"


def _path(way: Iterable[str | int]) -> str:
    text = ""
    for part in way:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if re.fullmatch(r"[\w-]{1,60}", part) else short(part)
            text += f".{key}" if text else key
    return text


def _keys_at(root: Any, way: Iterable[str | int]) -> list[str]:
    """The keys that the component at the end of a way knows."""
    here = root
    for part in way:
        if isinstance(part, str):
            here = typing.get_type_hints(here).get(part)
        while typing.get_args(here):
            here = typing.get_args(here)[0]
    if here is None:
        return []
    return [field.name for field in dataclasses.fields(here)] + list(
        getattr(here, "also_known", ())
    )
