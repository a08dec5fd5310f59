"""Reading TOML files, and changing their values: ``--set a.b=c``."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from mmfl.config.messages import short
from mmfl.errors import ConfigError, did_you_mean
from mmfl.system.files import SETTINGS, read_text

__all__ = ["apply_set", "read_text_file", "read_toml"]


def read_text_file(path: str | Path) -> str:
    """The text of a configuration file; `ConfigError` if there is none."""
    try:
        return read_text(path, limit=SETTINGS, pipes=True)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"cannot read {str(path)!r}: {reason}") from None


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; `ConfigError` if it is not valid."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"not valid TOML: {error}") from None
    except RecursionError:
        where = f"(at line {_deepest(text)})"
        raise ConfigError(f"not valid TOML: brackets are nested too deeply {where}") from None


def _decode(assignment: str) -> str:
    """What was typed, also where the locale's encoding is not UTF-8."""
    try:
        assignment.encode()
        return assignment
    except UnicodeEncodeError:  # bytes that Python could not decode
        pass
    try:
        return os.fsencode(assignment).decode()
    except UnicodeError:
        raise ConfigError(f"sets: {short(assignment)} is not UTF-8 text") from None


def _deepest(text: str) -> int:
    """The number of the first line at whose end most brackets are open, or that opens most."""
    depth, found = 0, (0, 1)
    for number, line in enumerate(text.split("\n"), 1):
        opened = sum(map(line.count, "[{"))
        found = max(found, (depth + opened, number), key=lambda pair: pair[0])
        depth = max(0, depth + opened - sum(map(line.count, "]}")))
    return found[1]


def apply_set(data: dict[str, Any], assignment: str) -> None:
    """Apply one ``a.b=c`` to nested tables, in place.

    A list item is named by its `name` or its number: ``tasks.fashion.lr=0.1``. The value is read as
    TOML, else as text. Choosing another `kind` starts from that kind's defaults, since the
    parameters of the old kind mean nothing to the new one.
    """
    assignment = _decode(assignment)
    path, equals, text = assignment.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"sets: must be a.b=c, got {assignment!r}")
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
            raise ConfigError(f"sets: {path}: {'.'.join(keys[: depth + 1])} is not a table")
    if isinstance(here, list):
        raise ConfigError(f"sets: {path}: must also name a key of the item")
    if keys[-1] == "kind" and here.get("kind") != value:
        here.clear()
    here[keys[-1]] = value


def _toml_value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"sets: {short(text)} is not a valid value: {error}") from None
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
    raise ConfigError(f"sets: {where} has no {key!r}; {did_you_mean(key, names)}")
