"""Variants of an experiment: ``--vary key=a,b`` and ``--seeds 0-3``, read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from mmfl.errors import ConfigError
from mmfl.sentences import short

__all__ = ["read_seeds", "read_vary"]


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds from "0-3", "7", "0,2,5" or "0-2,9"; each once, in the order given."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        if ends is None:
            raise ConfigError(f"--seeds takes numbers and ranges like 0-3 or 0,2,5, got {text!r}")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first >= 10_000:
            raise ConfigError(f"--seeds: {part.strip()!r} is no range of 1 to 10,000 seeds")
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
            raise ConfigError(f"--vary takes key=a,b (e.g. allocator.alpha=1,3,5), got {text!r}")
        if keys.count(key) > 1:
            raise ConfigError(f"--vary {key} is given twice; put its values into one list")
        called = _called(key, keys)
        axes.append([(_label(key, called, value), f"{key}={value}") for value in options])
    variants: dict[str, tuple[str, ...]] = {}
    for choice in product(*axes):
        name = " ".join(label for label, _ in choice) or "as is"
        if name in variants:
            raise ConfigError(f"--vary gives {name!r} twice")
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


def _called(key: str, keys: Sequence[str]) -> str:
    """The last part of a key, or as many as it takes to tell it from the other keys."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        if sum(parts[-count:] == other.split(".")[-count:] for other in keys) == 1:
            return ".".join(parts[-count:])
    return key


def _label(key: str, called: str, text: str) -> str:
    """How a value is called: a kind by itself, a number with (the end of) its key."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, Mapping):
        rest = [f"{name}={_plain(one)}" for name, one in value.items() if name != "kind"]
        return " ".join([str(value.get("kind", key)), *rest])
    if isinstance(value, str) and (key.endswith("kind") or "." not in key):
        return value
    return f"{called}={_plain(value)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else short(value).replace(" ", "")
