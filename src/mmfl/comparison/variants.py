"""Parse variants of an experiment: ``--vary key=a,b``, ``--seeds 0-3`` and ``--jobs 2``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

from mmfl.config import short
from mmfl.errors import ConfigError

__all__ = ["read_jobs", "read_seeds", "read_vary"]


def read_jobs(text: str) -> int | Literal["auto"]:
    """How many runs at the same time, from "auto" or "3"."""
    if text == "auto":
        return "auto"
    if not re.fullmatch(r"[1-9]\d{0,5}", text.strip()):
        raise ConfigError(f"jobs takes auto or a whole number >= 1, got {text!r}")
    return int(text)


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds from "0-3", "7", "0,2,5" or "0-2,9"; each once, in the order given."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        if ends is None:
            raise ConfigError(f"seeds takes numbers and ranges like 0-3 or 0,2,5, got {text!r}")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first >= 10_000:
            rule = "is not a valid range: write low-high, at most 10,000 seeds"
            raise ConfigError(f"seeds: {part.strip()!r} {rule}")
        seeds |= dict.fromkeys(range(first, last + 1))
    return tuple(seeds)


def read_vary(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """From a variant's name to the assignments (as ``--set`` takes them) that make it.

    Several ``--vary`` make a grid. A value may be anything that TOML can write on a line, such as
    ``{kind="fed_fair", floor=1}``: commas inside brackets, braces and quotes belong to it.
    """
    axes = []
    keys = [text.partition("=")[0].strip() for text in given]
    for text, key in zip(given, keys, strict=True):
        options = _split(text.partition("=")[2])
        if not key or not all(options):
            raise ConfigError(f"vary takes key=a,b (e.g. allocator.alpha=1,3,5), got {text!r}")
        if keys.count(key) > 1:
            raise ConfigError(f"vary {key} is given twice; put its values into one list")
        called, values = _shorten_key(key, keys), [_value(option) for option in options]
        same = _in_all(values)
        labels = [_label(key, called, value, same) for value in values]
        axes.append([(label, f"{key}={o}") for label, o in zip(labels, options, strict=True)])
    variants: dict[str, tuple[str, ...]] = {}
    for choice in product(*axes):
        name = " ".join(label for label, _ in choice) or "as is"
        if name in variants:
            raise ConfigError(f"vary gives {name!r} twice")
        variants[name] = tuple(assignment for _, assignment in choice)
    return variants


def _split(values: str) -> list[str]:
    """At the commas that stand outside of brackets, braces and quotes."""
    parts, depth, quote, escaped = [""], 0, "", False
    for letter in values:
        if quote:
            quote = "" if letter == quote and not escaped else quote
            escaped = quote == '"' and letter == "\\" and not escaped
        elif letter in "'\"":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _shorten_key(key: str, keys: Sequence[str]) -> str:
    """The last part of a key, or as many as it takes to tell it from the other keys."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        if sum(parts[-count:] == other.split(".")[-count:] for other in keys) == 1:
            return ".".join(parts[-count:])
    return key


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _in_all(values: Sequence[Any]) -> set[str]:
    """Keys other than `kind` that all tables set to the same value: they distinguish nothing."""
    if len(values) < 2 or not all(isinstance(value, Mapping) for value in values):
        return set()
    first, *others = values
    return {
        name
        for name, one in first.items()
        if name != "kind" and all(name in other and other[name] == one for other in others)
    }


def _label(key: str, called: str, value: Any, same: set[str]) -> str:
    """The label of a value: a kind by itself, a number with (the end of) its key."""
    if isinstance(value, Mapping):
        names = [name for name in value if name != "kind" and name not in same]
        rest = [f"{name}={_plain(value[name])}" for name in names]
        return " ".join([str(value.get("kind", key)), *rest])
    if isinstance(value, str) and (key.endswith("kind") or "." not in key):
        return value
    return f"{called}={_plain(value)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else short(value).replace(" ", "")
