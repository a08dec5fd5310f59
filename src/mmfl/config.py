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
import json
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

from mmfl.errors import ConfigError, did_you_mean
from mmfl.files import read_text
from mmfl.sentences import location, problem, sentence, short

__all__ = [
    "Count",
    "Family",
    "Flag",
    "Natural",
    "NonNegative",
    "OwnFunction",
    "Positive",
    "Share",
    "Text",
    "apply_set",
    "component",
    "dump",
    "imports_allowed",
    "parse",
    "read_file",
    "read_toml",
]

T = TypeVar("T")

Count = Annotated[int, Strict(), Field(ge=1, lt=2**31)]
Natural = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Flag = Annotated[bool, Strict()]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False), AfterValidator(abs)]
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
            raise ConfigError(f"{made.__name__}: {sentence(error, made)}") from None

    __init__.__wrapped__ = checked_init  # type: ignore[attr-defined]
    made.__init__ = __init__
    return typing.cast("type[T]", made)


@dataclasses.dataclass(frozen=True)
class OwnFunction:
    """A function of the user's, by its import path, and the keywords that it is given."""

    path: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __call__(self, *args: Any) -> Any:
        """Import it, call it."""
        return _import(self.path)(*args, **self.options)


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """One literal table of kinds, and the way from a configuration's table to a component.

    Attributes:
        name: What a member is called in messages, e.g. "allocator".
        table: From kind to component class. To add a member: one file, one row.
        needs: What an object must have to be a member (a user's own included).
        default: The kind of a table that names none, e.g. ``[engine] workers = 2``.
        scalar: (kind, field) of the member that a bare value stands for, e.g. ``lr = 0.01``.
        listed: (kind, field) of the member that a bare list stands for, e.g. ``speed = [9.0]``.
        optional: Whether None may stand for "not set".
        function: Makes a member of a user's plain function; it keeps it as its field `function`.
    """

    name: str
    table: Mapping[str, type[Any]]
    needs: tuple[str, ...]
    default: str | None = None
    scalar: tuple[str, str] | None = None
    listed: tuple[str, str] | None = None
    optional: bool = False
    function: Callable[[OwnFunction], Any] | None = None

    def parse(self, value: object) -> Any:
        """A member from a table with `kind`, a bare kind, a bare scalar, or the member itself."""
        if value is None and self.optional:
            return None
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._member(value, type(value).__name__)
        if self._is_function(value):
            return self._of_function(_path(value), {})
        bare = False
        if isinstance(value, str) and (value in self.table or not self.scalar or ":" in value):
            value = {"kind": value}
        elif isinstance(value, str | int | float) and self.scalar is not None:
            bare = True
            value = {"kind": self.scalar[0], self.scalar[1]: value}
        elif isinstance(value, list | tuple) and self.listed is not None:
            bare = True
            value = {"kind": self.listed[0], self.listed[1]: value}
        if not isinstance(value, Mapping):
            raise problem(f"must be a table with 'kind', or a kind, got {short(value)}")
        fields = dict(value)
        kind = fields.pop("kind", self.default)
        if self._is_function(kind):
            return self._of_function(_path(kind), fields)
        cls = self._class_of(kind)
        if not isinstance(cls, type):
            return self._of_function(kind, fields)
        names = {field.name for field in dataclasses.fields(cls) if field.init}
        for key in fields:
            if key not in names:
                raise problem(f"is not a known key; {did_you_mean(str(key), names)}", str(key))
        try:
            made = TypeAdapter(cls).validate_python(fields)
        except ValidationError as error:
            inner = error.errors(include_url=False)[0]
            where = () if bare else location(inner)
            raise problem(sentence(error, cls, nested=True), *where) from None
        return self._member(made, kind)

    def kind_of(self, member: object) -> str:
        """The kind that names a member in a configuration."""
        for kind, cls in self.table.items():
            if type(member) is cls:
                return kind
        own = getattr(member, "function", None)
        if isinstance(own, OwnFunction):
            return own.path
        return f"{type(member).__module__}:{type(member).__qualname__}"

    def dump(self, member: Any) -> Any:
        """The inverse of `parse`: plain values that a TOML file can hold."""
        kind = self.kind_of(member)
        if self.scalar is not None and kind == self.scalar[0]:
            value = getattr(member, self.scalar[1])
            if not (isinstance(value, str) and (value in self.table or ":" in value)):
                return dump(value)
        own = getattr(member, "function", None)
        if isinstance(own, OwnFunction):
            return {"kind": kind, **{key: dump(value) for key, value in own.options.items()}}
        return {"kind": kind, **dump(member)}

    def _is_function(self, value: object) -> bool:
        """Whether this is a function of the user's where one may stand."""
        plain = callable(value) and not isinstance(value, type) and hasattr(value, "__qualname__")
        return plain and self.function is not None

    def _of_function(self, path: str, options: Mapping[str, Any]) -> Any:
        for key, value in options.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                rule = f"must be text, numbers, lists or tables of them, got {short(value)}"
                raise problem(rule, str(key)) from None
        assert self.function is not None
        return self.function(OwnFunction(path, options))

    def _class_of(self, kind: Any) -> Any:
        if not isinstance(kind, str):
            known = did_you_mean("", self.table)
            if kind is None:
                raise problem(f"needs a 'kind' ({known})")
            raise problem(f"must be a kind's name ({known}), got {short(kind)}", "kind")
        if kind in self.table:
            return self.table[kind]
        if ":" not in kind:
            known = did_you_mean(kind, self.table)
            raise problem(f"unknown {self.name} {short(kind)}; {known}", "kind")
        if not _imports.get():
            raise problem(
                f"{kind!r} would import code; pass --allow-imports (in Python: "
                "allow_imports=True) if you trust it",
                "kind",
            )
        found = _import(kind)
        if self.function is not None and callable(found) and not isinstance(found, type):
            return found
        if not isinstance(found, type) or not dataclasses.is_dataclass(found):
            raise problem(f"{kind!r} must be a dataclass, so that it can be written down", "kind")
        return found

    def _member(self, made: object, kind: str) -> object:
        missing = [name for name in self.needs if not hasattr(made, name)]
        if missing:
            raise problem(f"{kind!r} is no {self.name}: it has no {missing[0]!r}", "kind")
        return made

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Hand the field over to `parse`."""
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """One alternative per kind, a bare kind, and a user's own."""
        own = {"type": "string", "pattern": "^[\\w.]+:\\w+$"}
        choices: list[dict[str, Any]] = [{"enum": sorted(self.table)}, own]
        for kind, name in filter(None, (self.scalar, self.listed)):
            table = TypeAdapter(self.table[kind]).json_schema()
            choices.append(table["properties"][name])
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
        raise ConfigError(sentence(error, cls)) from None


def read_file(path: str | Path) -> str:
    """The text of a configuration file; `ConfigError` if there is none."""
    try:
        return read_text(path, pipes=True)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"cannot read {str(path)!r}: {reason}") from None


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; `ConfigError` if it is none."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"not valid TOML: {error}") from None
    except RecursionError:
        where = f"(at line {_deepest(text)})"
        raise ConfigError(f"not valid TOML: too many brackets inside each other {where}") from None


def _deepest(text: str) -> int:
    """The number of the first line at whose end most brackets are open, or that opens most."""
    depth, found = 0, (0, 1)
    for number, line in enumerate(text.split("\n"), 1):
        opened = sum(map(line.count, "[{"))
        found = max(found, (depth + opened, number), key=lambda pair: pair[0])
        depth = max(0, depth + opened - sum(map(line.count, "]}")))
    return found[1]


def dump(value: Any) -> Any:
    """Plain values (tables, lists, scalars) from a component; fields that are None are left out."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return [dump(item) for item in value] if isinstance(value, tuple | list) else value
    table = {}
    hints = _hints(type(value))
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if item is not None and item != {}:
            table[field.name] = _dumped(item, hints[field.name])
    return table


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _dumped(item: Any, hint: Any) -> Any:
    """A field's value; a member of a family, or a table of members, as its family writes it."""
    if isinstance(item, Mapping):
        inner = (typing.get_args(hint) or (None,))[-1]
        return {key: _dumped(value, inner) for key, value in item.items()}
    metadata = getattr(hint, "__metadata__", ())
    family = next((m for m in metadata if isinstance(m, Family)), None)
    return family.dump(item) if family else dump(item)


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
    value = _toml_value(text)
    here: Any = data
    for depth, key in enumerate(keys[:-1]):
        if isinstance(here, list):
            here = _item(here, key, ".".join(keys[:depth]))
            continue
        if isinstance(here.get(key), str):
            here[key] = {"kind": here[key]}
        if keys[depth + 1 :] == ["kind"] and not isinstance(here.get(key), dict):
            here[key] = {}
        here = here.setdefault(key, {})
        if not isinstance(here, dict | list):
            raise ConfigError(f"--set {path}: {'.'.join(keys[: depth + 1])} is no table")
    if isinstance(here, list):
        raise ConfigError(f"--set {path}: name a key of the item too")
    if keys[-1] == "kind" and here.get("kind") != value:
        here.clear()
    here[keys[-1]] = value


def _toml_value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set: {short(text)} is no value: {error}") from None
    return found["value"] if len(found) == 1 else text


def _item(items: list[Any], key: str, where: str) -> Any:
    names = {
        str(item.get("name", number)): item
        for number, item in enumerate(items)
        if isinstance(item, dict)
    }
    if key in names:
        return names[key]
    if key.isdecimal() and int(key) < len(items) and isinstance(items[int(key)], dict):
        return items[int(key)]
    raise ConfigError(f"--set: {where} has no {key!r}; {did_you_mean(key, names)}")


def _path(function: Any) -> str:
    path = f"{function.__module__}:{function.__qualname__}"
    if "<" in path or _import(path) != function:  # a lambda, a function inside one, a method
        raise problem(f"{path!r} cannot be imported again; give a function of a module's own")
    return path


def _import(path: str) -> Any:
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise problem(f"cannot import {path!r}: {type(error).__name__}: {said}", "kind") from error
    return found
