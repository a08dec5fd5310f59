"""How configuration becomes values and back: components, families, and one sentence per mistake.

A *component* is a frozen value whose fields are its hyper-parameters: it prints, compares, hashes
and pickles. A *family* is one literal table from a `kind` to the component that bears it, so that
``[allocator] kind = "fed_fair"`` becomes ``FedFair(...)``. A kind with a colon,
``"package.module:Name"``, is a user's own class; it is imported only where `imports_allowed` says
so, because a configuration must not run code by surprise.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic.dataclasses
from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mmfl.errors import ConfigError, did_you_mean

__all__ = [
    "Count",
    "Family",
    "Natural",
    "NonNegative",
    "Positive",
    "Share",
    "Text",
    "apply_set",
    "component",
    "dump",
    "imports_allowed",
    "parse",
]

T = TypeVar("T")

Count = Annotated[int, Strict(), Field(ge=1)]
Natural = Annotated[int, Strict(), Field(ge=0)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Text = Annotated[str, Strict(), Field(min_length=1)]

_imports: ContextVar[bool] = ContextVar("imports_allowed", default=True)


@contextmanager
def imports_allowed(allowed: bool) -> Iterator[None]:
    """Within this block a ``package.module:Name`` is followed, or refused (design, contract 6)."""
    token = _imports.set(allowed)
    try:
        yield
    finally:
        _imports.reset(token)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def component(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, checked value; a wrong argument raises a one-sentence `ConfigError`."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls)
    checked_init = made.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        names = [field.name for field in dataclasses.fields(made) if field.init]
        if len(args) > len(names):
            raise ConfigError(f"{made.__name__} takes at most {len(names)} values, got {len(args)}")
        try:
            checked_init(self, **dict(zip(names, args, strict=False)), **kwargs)
        except ValidationError as error:
            raise ConfigError(f"{made.__name__}: {_sentence(error, made)}") from None

    __init__.__wrapped__ = checked_init  # type: ignore[attr-defined]
    made.__init__ = __init__
    return typing.cast("type[T]", made)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """One literal table of kinds, and the way from a configuration's table to a component.

    Attributes:
        name: What a member is called in messages, e.g. "allocator".
        table: From kind to component class. To add a member: one file, one row.
        needs: The methods that make an object a member (a user's own included).
        scalar: (kind, field) of the member that a bare value stands for, e.g. ``lr = 0.01``.
    """

    name: str
    table: Mapping[str, type[Any]]
    needs: tuple[str, ...]
    scalar: tuple[str, str] | None = None

    def parse(self, value: object) -> Any:
        """A member from a table with `kind`, a bare kind, a bare scalar, or the member itself."""
        if not isinstance(value, str | int | float | Mapping):
            return self._member(value, type(value).__name__)
        if isinstance(value, str) and (value in self.table or not self.scalar or ":" in value):
            value = {"kind": value}
        elif not isinstance(value, Mapping):
            if self.scalar is None:
                raise _problem(f"must be a table with 'kind', or a kind, got {value!r}")
            value = {"kind": self.scalar[0], self.scalar[1]: value}
        fields = dict(value)
        kind = fields.pop("kind", None)
        if not isinstance(kind, str):
            raise _problem(f"needs a 'kind' ({did_you_mean('', self.table)})")
        cls = self._class_of(kind)
        try:
            made = TypeAdapter(cls).validate_python(fields)
        except ValidationError as error:
            inner = error.errors(include_url=False)[0]
            raise _problem(_sentence(error, cls, with_path=False), *_location(inner)) from None
        return self._member(made, kind)

    def kind_of(self, member: object) -> str:
        """The kind that names a member in a configuration."""
        for kind, cls in self.table.items():
            if type(member) is cls:
                return kind
        return f"{type(member).__module__}:{type(member).__qualname__}"

    def dump(self, member: Any) -> Any:
        """The inverse of `parse`: plain values that a TOML file can hold."""
        kind = self.kind_of(member)
        if self.scalar is not None and kind == self.scalar[0]:
            return dump(getattr(member, self.scalar[1]))
        return {"kind": kind, **dump(member)}

    def _class_of(self, kind: str) -> type[Any]:
        if kind in self.table:
            return self.table[kind]
        if ":" not in kind:
            raise _problem(
                f"unknown {self.name} {kind!r}; {did_you_mean(kind, self.table)}", "kind"
            )
        if not _imports.get():
            raise _problem(
                f"{kind!r} would import code; pass --allow-imports (in Python: "
                "allow_imports=True) if you trust it",
                "kind",
            )
        return _import(kind)

    def _member(self, made: object, kind: str) -> object:
        missing = [name for name in self.needs if not callable(getattr(made, name, None))]
        if missing:
            raise _problem(f"{kind!r} is no {self.name}: it has no method {missing[0]!r}", "kind")
        if not dataclasses.is_dataclass(made):
            raise _problem(f"{kind!r} must be a dataclass, so that it can be written down", "kind")
        return made

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Hand the field over to `parse`."""
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """One alternative per kind, a bare kind, and a user's own."""
        own = {"type": "string", "pattern": "^[\\w.]+:\\w+$"}
        choices: list[dict[str, Any]] = [{"enum": sorted(self.table)}, own]
        if self.scalar is not None:
            cls = self.table[self.scalar[0]]
            choices.append(TypeAdapter(cls).json_schema()["properties"][self.scalar[1]])
        for kind, cls in sorted(self.table.items()):
            table = TypeAdapter(cls).json_schema()
            table["properties"] = {"kind": {"const": kind}, **table.get("properties", {})}
            table["required"] = ["kind", *table.get("required", [])]
            choices.append(table)
        choices.append({"type": "object", "properties": {"kind": own}, "required": ["kind"]})
        return {"anyOf": choices}


def parse(cls: type[T], data: Mapping[str, Any]) -> T:
    """A component from plain values; `ConfigError` with one sentence if a rule is broken."""
    try:
        return TypeAdapter(cls).validate_python(dict(data))
    except ValidationError as error:
        raise ConfigError(_sentence(error, cls)) from None


def dump(value: Any) -> Any:
    """Plain values (tables, lists, scalars) from a component; fields that are None are left out."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return [dump(item) for item in value] if isinstance(value, tuple | list) else value
    table = {}
    hints = typing.get_type_hints(type(value), include_extras=True)
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if item is not None:
            metadata = getattr(hints[field.name], "__metadata__", ())
            family = next((m for m in metadata if isinstance(m, Family)), None)
            table[field.name] = family.dump(item) if family else dump(item)
    return table


def apply_set(data: dict[str, Any], assignment: str) -> None:
    """Apply one ``a.b=c`` to nested tables, in place.

    A list item is named by its `name` or its number: ``tasks.fashion.lr=0.1``. The value is read as
    TOML, else as text. Choosing another `kind` starts from that kind's defaults, since the
    parameters of the old kind mean nothing to the new one.
    """
    path, equals, text = assignment.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set takes a.b=c, got {assignment!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    here: Any = data
    for depth, key in enumerate(keys[:-1]):
        if isinstance(here, list):
            here = _item(here, key, ".".join(keys[:depth]))
            continue
        if isinstance(here.get(key), str):
            here[key] = {"kind": here[key]}
        here = here.setdefault(key, {})
        if not isinstance(here, dict | list):
            raise ConfigError(f"--set {path}: {'.'.join(keys[: depth + 1])} is no table")
    if isinstance(here, list):
        raise ConfigError(f"--set {path}: name a key of the item too")
    if keys[-1] == "kind" and here.get("kind") != value:
        here.clear()
    here[keys[-1]] = value


def _item(items: list[Any], key: str, where: str) -> Any:
    names = {str(item.get("name", number)): item for number, item in enumerate(items)}
    if key in names:
        return names[key]
    if key.isdigit() and int(key) < len(items):
        return items[int(key)]
    raise ConfigError(f"--set: {where} has no {key!r}; {did_you_mean(key, names)}")


def _import(path: str) -> type[Any]:
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise _problem(
            f"cannot import {path!r}: {type(error).__name__}: {error}", "kind"
        ) from error
    if not isinstance(found, type):
        raise _problem(f"{path!r} is no class", "kind")
    return found


def _problem(message: str, *where: str | int) -> PydanticCustomError:
    """An error that pydantic places at the family's field, and `_location` deeper inside it."""
    return PydanticCustomError("problem", "{message}", {"message": message, "where": list(where)})


def _location(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    return (*error["loc"], *error.get("ctx", {}).get("where", ()))


def _sentence(error: ValidationError, root: type, *, with_path: bool = True) -> str:
    """Which field, what rule, what was given: the first problem, and how many more there are."""
    errors = error.errors(include_url=False)
    first = errors[0]
    location = _location(first)
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        known = _fields_at(root, location[:-1])
        rule = f"is not a known key; {did_you_mean(str(location[-1]), known)}"
    elif first["type"] in ("missing", "missing_argument"):
        rule = "is missing"
    elif first["type"] == "problem":
        rule = first["msg"]
    elif first["type"] == "value_error":
        rule = str(first["ctx"]["error"])
    else:
        rule = first["msg"].removeprefix("Input should be ")
        rule = f"must be {rule}, got {_short(first['input'])}"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = _path(location) if with_path else ""
    if not where:
        return rule + more
    return f"{where}{' ' if rule.startswith(('must', 'is ', 'needs')) else ': '}{rule}{more}"


def _path(location: Iterable[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _fields_at(root: Any, location: Iterable[str | int]) -> list[str]:
    """The keys that the component at `location` below `root` knows."""
    here = root
    for part in location:
        if isinstance(part, str):
            here = typing.get_type_hints(here).get(part)
        while typing.get_args(here):
            here = typing.get_args(here)[0]
    return [field.name for field in dataclasses.fields(here)] if here is not None else []


def is_finite(value: object) -> bool:
    """Whether a value is a number (no boolean) that is neither infinite nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
