"""One sentence for each mistake in a configuration: which field, what rule, what was given."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from mmfl.errors import describe_type, did_you_mean, plural, shorten, text_of

__all__ = [
    "Mistake",
    "find_cause",
    "find_mistakes",
    "problem",
    "problems",
    "sentence",
    "sentences",
    "short",
]

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


class Mistake(NamedTuple):
    """A broken rule, where it was broken (the path from the root), and the user's exception."""

    rule: str
    where: tuple[str | int, ...]
    cause: BaseException | None = None

    @property
    def sentence(self) -> str:
        """Where it is, and the rule."""
        where = _path(self.where)
        link = " " if self.rule.startswith(("must ", "is ", "needs ")) else ": "
        return f"{where}{link}{self.rule}" if where else self.rule


def problem(
    message: str, *where: str | int, cause: BaseException | None = None
) -> PydanticCustomError:
    """An error that pydantic places at a field, and `find_mistakes` deeper inside it.

    Args:
        message: The rule that is broken.
        where: The path from the field.
        cause: What the user's code raised, which pydantic would forget.
    """
    return problems([Mistake(message, where, cause)])


def problems(mistakes: Sequence[Mistake]) -> PydanticCustomError:
    """The same for several mistakes inside a field, of which pydantic knows only one error."""
    context = {"message": mistakes[0].rule, "mistakes": list(mistakes)}
    return PydanticCustomError("problem", "{message}", context)


def sentence(error: ValidationError, root: type) -> str:
    """The first problem (an unknown key before all others), and how many more there are."""
    first, *others = sentences(error, root)
    return f"{first} (and {plural(len(others), 'more error')})" if others else first


def sentences(error: ValidationError, root: type) -> list[str]:
    """A sentence for each problem, unknown keys first."""
    return [mistake.sentence for mistake in find_mistakes(error, root)]


def find_mistakes(error: ValidationError, root: type) -> list[Mistake]:
    """All mistakes, unknown keys first."""
    every: list[Any] = list(error.errors(include_url=False))
    errors = [one for one in every if not _is_echo(one, every)]
    found: list[Mistake] = []
    for one in sorted(errors, key=lambda one: one["type"] not in _UNKNOWN):
        if one["type"] == "problem":
            inner: list[Mistake] = one["ctx"]["mistakes"]
            found += [mistake._replace(where=(*one["loc"], *mistake.where)) for mistake in inner]
        else:
            raised = one.get("ctx", {}).get("error")
            cause = raised.__cause__ if isinstance(raised, BaseException) else None
            found.append(Mistake(_rule(one, root), tuple(one["loc"]), cause))
    return found


def find_cause(error: ValidationError, root: type) -> BaseException | None:
    """What the user's code raised behind the first mistake that has such a cause."""
    causes = (mistake.cause for mistake in find_mistakes(error, root))
    return next(filter(None, causes), None)


def _is_echo(error: Any, every: Sequence[Any]) -> bool:
    """Whether a list is called too short only because pydantic does not count wrong items."""
    depth = len(error["loc"])
    inside = (len(one["loc"]) > depth and one["loc"][:depth] == error["loc"] for one in every)
    return error["type"] == "too_short" and any(inside)


def short(value: object) -> str:
    """A value, shortened for a message."""
    try:
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a whole number with too many digits, or a user's object
        many = isinstance(value, int)
        return "a number with too many digits" if many else describe_type(value)
    return shorten(text, 60)


def _rule(error: Any, root: type) -> str:
    kind, where = error["type"], error["loc"]
    if kind in _UNKNOWN:
        return f"is not a known key; {did_you_mean(str(where[-1]), _keys_at(root, where[:-1]))}"
    if kind in ("missing", "missing_argument"):
        return "is missing"
    if kind == "value_error":
        return text_of(error["ctx"]["error"])
    rule = re.sub(r"^(Input|String|Tuple|List|Dictionary|Value) should ", "", error["msg"])
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
    """The keys of the component at the end of a path."""
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
