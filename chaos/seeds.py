"""What mutation starts from: the examples of the repository, and values made from the schema.

Nothing here knows the sections of an experiment: their keys and kinds come from
`Experiment.json_schema()`, so that a new section is fuzzed from its first day.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.harness import HOUSE
from mmfl.experiment import Experiment
from mmfl.rng import Stream

__all__ = ["Table", "experiments", "instance", "markets", "schema", "words"]

STUDIES = ("paper", "benchmark")
"""Folders whose files are more than an experiment."""
_IMPORTED = re.compile(r"'kind': '[\w.]+:\w+'")  # refused at once, whatever else the file says
Table = dict[str, Any]

SMALL: Table = {
    "rounds": 3,
    "clients": {"count": 8, "active": 0.5},
    "local": {"epochs": 1, "batch_size": 16},
    "tasks": [
        {
            "name": "dense",
            "dataset": {"kind": "synthetic", "classes": 3, "train": 300, "test": 60},
            "model": {"kind": "mlp", "hidden": [8]},
        },
        {
            "name": "image",
            "dataset": {"kind": "synthetic", "shape": [8, 8], "train": 300, "test": 60},
            "model": {"kind": "cnn", "channels": [2, 4], "dense": 8},
            "partition": {"kind": "half_classes", "points": [5, 20]},
        },
    ],
}
FILES: Table = {
    "rounds": 2,
    "clients": {"count": 8, "active": [0.5, 1, 1, 1, 0.2, 0.3, 1.0, 0]},
    "engine": "inline",
    "tasks": [
        {
            "name": "wards",
            "dataset": {"kind": "npz", "path": "groups.npz"},
            "normalize": {"kind": "given", "mean": 0.5, "std": [1, 1, 1, 2]},
            "partition": "by_group",
        },
        {
            "name": "stays",
            "dataset": {"kind": "npz", "path": "real.npz"},
            "loss": {"kind": "huber", "delta": 0.5},
            "metric": "r2",
            "partition": {"kind": "given", "path": "owners.csv"},
        },
        {
            "name": "again",
            "dataset": "mnist",
            "model": {"kind": "cnn", "channels": [2, 4], "dense": 8},
            "warm_start": "warm.safetensors",
        },
    ],
    "recruitment": {
        "mechanism": {"kind": "gmm_fair", "budget": 9.0},
        "bids": {"kind": "csv", "path": "bids.csv"},
        "empty": "leave_out",
    },
}
MARKET: Table = {
    "clients": 30,
    "correlation": 0.2,
    "tasks": {
        "a": {"kind": "truncated_normal", "mean": 0.5, "sd": 0.2},
        "b": {"kind": "increasing_linear"},
        "c": {"kind": "beta", "a": 2.0, "b": 5.0, "high": 3.0},
        "d": {"kind": "exponential", "mean": 0.3},
        "e": {"kind": "uniform", "low": 0.1, "high": 0.9},
    },
}


@cache
def schema() -> Table:
    """The JSON Schema of an experiment."""
    return Experiment.json_schema()


@cache
def words() -> frozenset[str]:
    """All keys and kinds that the schema knows."""
    return frozenset(_words(schema()))


def _words(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        yield from part.get("properties", ())
        yield from (w for w in (*part.get("enum", ()), part.get("const")) if isinstance(w, str))
        for inner in part.values():
            yield from _words(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _words(inner)


@cache
def experiments() -> tuple[Table, ...]:
    """Experiments to start from, as tables: files, snippets of the documentation, our own."""
    known = schema()["properties"].keys()  # other files are of Flower, or have more in them
    found: list[Table] = [SMALL, FILES]
    for table in (*_files(), *_snippets()):
        if "tasks" in table and "rounds" in table:
            found.append(table)
        elif "clients" not in table and not _names_tasks(table) and table.keys() <= known:
            found.append(copy.deepcopy(FILES) | table)
    return tuple(table for table in found if not _IMPORTED.search(repr(table)))


def _names_tasks(table: Table) -> bool:
    """Whether a part of an experiment names tasks."""
    return "tasks" in table or "tasks" in table.get("recruitment", ())


@cache
def markets() -> tuple[Table, ...]:
    """Descriptions of simulated bids."""
    found = [t for t in (*_files(), *_snippets()) if isinstance(t.get("clients"), int)]
    return (MARKET, *found)


def _files() -> Iterator[Table]:
    folders = [path for path in (HOUSE / "experiments").iterdir() if path.name not in STUDIES]
    for folder in sorted((*folders, HOUSE / "chaos")):
        for path in sorted(folder.glob("*.toml")):
            yield tomllib.loads(path.read_text(encoding="utf-8"))


def _snippets() -> Iterator[Table]:
    for page in sorted((HOUSE / "docs").rglob("*.md")):
        shown = page.read_text(encoding="utf-8")
        for text in re.findall(r"```toml[^\n]*\n(.*?)```", shown, re.DOTALL):
            if re.search(r'"\w+:\w+"', text):  # the code that it needs is elsewhere on the page
                continue
            try:
                yield tomllib.loads(text)
            except tomllib.TOMLDecodeError:  # the page may show only part of a file
                continue


def instance(part: Mapping[str, Any], rng: Stream) -> Any:
    """A value that (mostly) fits a part of the schema; None where the schema requires null."""
    if "$ref" in part:
        return instance(schema()["$defs"][part["$ref"].rsplit("/", 1)[1]], rng)
    if "anyOf" in part:
        full = [one for one in part["anyOf"] if "additionalProperties" in one or "$ref" in one]
        return instance(_one(full if full and rng.random() < 0.8 else part["anyOf"], rng), rng)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return _one(part["enum"], rng)
    match part.get("type"):
        case "object" if "properties" in part:
            return _object(part, rng)
        case "object":
            inner = part.get("additionalProperties")
            made = {n: instance(inner, rng) for n in ("dense", "image")} if inner else {}
            return made
        case "array" if "prefixItems" in part:
            return [instance(each, rng) for each in part["prefixItems"]]
        case "array":
            least = part.get("minItems", 0)
            count = int(rng.integers(least, max(least, part.get("maxItems", 4)) + 1))
            return [instance(part["items"], rng) for _ in range(count)]
        case "integer":
            return int(rng.integers(_low(part, 0), 40))
        case "number":
            low, high = _low(part, 0), part.get("maximum", part.get("exclusiveMaximum", 2.0))
            low, high = (0.0 if low < -1e6 else low), (2.0 if high > 1e6 else high)
            return round(float(low + (high - low) * (0.05 + 0.9 * rng.random())), 3)
        case "boolean":
            return bool(rng.random() < 0.5)
        case "string":
            return _one(["bids.csv", "owners.npy", "real.npz", "module:Name", "dense"], rng)
    return None


def _object(part: Mapping[str, Any], rng: Stream) -> Table:
    made = {}
    for name, inner in part["properties"].items():
        if name in part.get("required", ()) or rng.random() < 0.5:
            value = instance(inner, rng)
            if value is not None:
                made[name] = value
    return made


def _low(part: Mapping[str, Any], default: float) -> Any:
    return part.get("minimum", part.get("exclusiveMinimum", default))


def _one(choices: Sequence[Any], rng: Stream) -> Any:
    return choices[int(rng.integers(len(choices)))]
