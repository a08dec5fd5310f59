"""Families: one literal table from a `kind` to the component that has it.

``[allocator] kind = "fed_fair"`` becomes ``FedFair(...)``. A kind with a colon,
``"package.module:Name"``, is a user's own class; see `mmfl.config.imports`.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mmfl.config.components import WRITE_IF_SET
from mmfl.config.imports import OwnFunction, are_imports_allowed, get_import_path, import_object
from mmfl.config.in_memory import is_in_memory
from mmfl.config.messages import (
    Mistake,
    find_cause,
    find_mistakes,
    problem,
    problems,
    sentence,
    sentences,
    short,
)
from mmfl.config.module_hashes import hash_module
from mmfl.config.plain_values import RULE, are_equal, find_unstorable
from mmfl.config.schema import family_schema
from mmfl.errors import ConfigError, MmflError, did_you_mean
from mmfl.system.tracebacks import lead_to
from mmfl.system.user_code import describe_error, pass_on

__all__ = ["Family", "PartLike", "build_component", "dump", "parse"]

T = TypeVar("T")

PartLike = str | Mapping[str, Any] | Callable[..., Any]
"""What may stand for a member of a family in Python: a kind, a table with one, or a user's own
class, function or network."""

_NEEDS_DATACLASS = "must be a dataclass, so that its settings can be stored with the run"


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
        accepts: Which other objects and classes count as such functions.
        own: A clause that says how a user writes a member, for messages.
        refused: From kinds that people look for here to why there are none.
    """

    name: str
    table: Mapping[str, type[Any]]
    needs: tuple[str, ...]
    default: str | None = None
    scalar: tuple[str, str] | None = None
    listed: tuple[str, str] | None = None
    optional: bool = False
    function: Callable[[OwnFunction], Any] | None = None
    accepts: Callable[[object], bool] | None = None
    own: str | None = None
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def parse(self, value: object) -> Any:
        """A member from a table with `kind`, a bare kind, a bare scalar, or the member itself."""
        if value is None and self.optional:
            return None
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            module, own, _ = self.kind_of(value).partition(":")
            if own:
                hash_module(module)
            with _class_errors(type(value), type(value).__name__):
                return self._check_member(value, type(value).__name__)
        if self._is_function(value):
            return self._wrap_function(get_import_path(value), {})
        bare = self._expand_bare(value)
        table = bare if bare is not None else self._expand_kind(value)
        kind = table.pop("kind", self.default)
        if self._is_function(kind):
            return self._wrap_function(get_import_path(kind), table)
        cls = self._find_class(kind)
        if self._is_function(cls):
            return self._wrap_function(kind, table)
        with _class_errors(cls, kind):
            return self._check_member(build_component(cls, table, bare=bare is not None), kind)

    def _expand_bare(self, value: object) -> dict[str, Any] | None:
        """The table that a bare number, text or list stands for; None if it is none of these."""
        if isinstance(value, str) and (value in self.table or not self.scalar or ":" in value):
            return None  # a kind
        if isinstance(value, str | int | float) and self.scalar is not None:
            return {"kind": self.scalar[0], self.scalar[1]: value}
        if isinstance(value, list | tuple) and self.listed is not None:
            return {"kind": self.listed[0], self.listed[1]: value}
        return None

    def _expand_kind(self, value: object) -> dict[str, Any]:
        """The table that a kind, or a table, stands for."""
        if isinstance(value, str):
            return {"kind": value}
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            raise problem(f"must be an object such as {value.__name__}(...), got the class itself")
        if callable(value) or any(hasattr(value, name) for name in self.needs):
            name = getattr(value, "__name__", type(value).__name__)
            raise problem(f"{_NEEDS_DATACLASS}, got {name}{self._hint}")
        plain = value is None or isinstance(value, bool | int | float | list | tuple)
        hint = "" if plain else self._hint
        rule = "must be a table with 'kind', or the name of a kind"
        raise problem(f"{rule}, got {short(value)}{hint}")

    def kind_of(self, member: object) -> str:
        """The kind that names a member in a configuration."""
        for kind, cls in self.table.items():
            if type(member) is cls:
                return kind
        own = getattr(member, "function", None)
        if isinstance(own, OwnFunction):
            return own.path
        made: Any = type(member)
        return _name_class(made)

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
        """Whether this is a user's function, where one is allowed."""
        if self.function is None:
            return False
        if self.accepts is not None and self.accepts(value):
            return True
        named = hasattr(value, "__qualname__") or isinstance(value, partial)
        return callable(value) and not isinstance(value, type) and named

    def _wrap_function(self, path: str, options: Mapping[str, Any]) -> Any:
        for key, value in options.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                rule = f"must consist of text, numbers, lists and tables, got {short(value)}"
                raise problem(rule, str(key)) from None
        assert self.function is not None
        return self.function(OwnFunction(path, options))

    def _find_class(self, kind: Any) -> Any:
        if not isinstance(kind, str):
            known = did_you_mean("", self.table)
            if kind is None:
                raise problem(f"needs a 'kind' ({known})")
            raise problem(f"must be the name of a kind ({known}), got {short(kind)}", "kind")
        if kind in self.table:
            return self.table[kind]
        if kind in self.refused:
            raise problem(f"{short(kind)} cannot be used: {self.refused[kind]}", "kind")
        if ":" not in kind:
            known = did_you_mean(kind, self.table)
            hint = self._hint if known.startswith("known: ") else ""
            raise problem(f"unknown {self.name} {short(kind)}; {known}{hint}", "kind")
        if not are_imports_allowed() and not is_in_memory(kind):
            raise problem(
                f"{kind!r} would import code; pass allow_imports=True, or the object itself, if "
                "you trust it",
                "kind",
            )
        found = import_object(kind)
        if self._is_function(found):
            return found
        if not isinstance(found, type) or not dataclasses.is_dataclass(found):
            raise problem(f"{kind!r} {_NEEDS_DATACLASS}{self._hint}", "kind")
        return found

    @property
    def _hint(self) -> str:
        return f"; {self.own}" if self.own else ""

    def _check_member(self, made: object, kind: str) -> object:
        missing = [name for name in self.needs if not hasattr(made, name)]
        if missing:
            raise problem(f"{kind!r} is not a valid {self.name}: it has no {missing[0]!r}", "kind")
        if type(made).__module__.partition(".")[0] != "mmfl":
            _check_settings(made, kind)
        return made

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Hand the field over to `parse`."""
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """One alternative for each way in which a member can be written."""
        return family_schema(self)


@lru_cache(maxsize=256)
def _name_class(cls: Any) -> str:
    """The import path of a user's class, or its name in memory."""
    return get_import_path(cls)


@contextmanager
def _class_errors(cls: type[Any], kind: str) -> Iterator[None]:
    """Turn what a user's class raises while it makes a member into a mistake in `kind`."""
    try:
        yield
    except (MmflError, PydanticCustomError, ValidationError):
        raise
    except BaseException as error:
        pass_on(error)
        if cls.__module__.partition(".")[0] == "mmfl":
            raise
        said = f"{kind!r} cannot be created: {describe_error(error)}"
        raise problem(said, "kind", cause=error) from error


def _check_settings(made: Any, kind: str) -> None:
    """Refuse a user's component that cannot be stored with a run and restored."""
    for field in dataclasses.fields(made):
        found = find_unstorable(getattr(made, field.name))
        if found is not None:
            raise problem(f"{RULE}, got {found} (a setting of {kind!r})", field.name)
    stored = dump(made)
    cls: Any = type(made)
    again = json.loads(_make_again(cls, json.dumps(stored)))
    changed = [key for key in stored if not are_equal(stored[key], again.get(key))]
    for key in changed[:1]:
        raise problem(
            f"must not be changed by __post_init__ of {kind!r}: {short(stored[key])} becomes "
            f"{short(again.get(key))} when the component is made again from its settings",
            key,
        )


@lru_cache(maxsize=256)  # a schedule is checked in every round
def _make_again(cls: Any, stored: str) -> str:
    """What the settings of a component are after it is made from stored ones."""
    return json.dumps(dump(build_component(cls, json.loads(stored), bare=False)))


def build_component(cls: type[Any], fields: Mapping[str, Any], *, bare: bool) -> Any:
    """A component from its fields; `bare`: they were not named, so a message does not name them."""
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    mistakes = [
        Mistake(f"is not a known key; {did_you_mean(str(key), names)}", (str(key),))
        for key in fields
        if key not in names
    ]
    made = None
    try:
        known = {key: value for key, value in fields.items() if key in names}
        made = TypeAdapter(cls).validate_python(known)
    except ValidationError as error:
        mistakes += find_mistakes(error, cls)
    except Exception as error:
        pass_on(error)
        if not mistakes:  # else it may fail because of them
            raise
    if mistakes:
        raise problems([mistake._replace(where=()) for mistake in mistakes] if bare else mistakes)
    return made


def parse(cls: type[T], data: Mapping[str, Any]) -> T:
    """A component from plain values; `ConfigError` with one sentence if a rule is broken."""
    try:
        return TypeAdapter(cls).validate_python(dict(data))
    except ValidationError as error:
        cause = find_cause(error, cls)
        made = ConfigError(sentence(error, cls), sentences(error, cls))
        raise lead_to(made, cause) from cause


def dump(value: Any) -> Any:
    """Plain values (tables, lists, scalars) from a component.

    Fields that are None are left out, and so are those of `WRITE_IF_SET` that have their default.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return [dump(item) for item in value] if isinstance(value, tuple | list) else value
    table = {}
    hints = _hints(type(value))
    for field in dataclasses.fields(value):
        item, hint = getattr(value, field.name), hints[field.name]
        silent = WRITE_IF_SET in getattr(hint, "__metadata__", ()) and item == field.default
        if item is not None and item != {} and not silent:
            table[field.name] = _dump_field(item, hint)
    return table


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _dump_field(item: Any, hint: Any) -> Any:
    """A field's value; a member of a family, or a table of members, as its family writes it."""
    if isinstance(item, Mapping):
        inner = (typing.get_args(hint) or (None,))[-1]
        return {key: _dump_field(value, inner) for key, value in item.items()}
    metadata = getattr(hint, "__metadata__", ())
    family = next((m for m in metadata if isinstance(m, Family)), None)
    return family.dump(item) if family else dump(item)
