"""Mutated inputs, each determined by (seed, number): experiments, markets and tables of bids.

A case starts from a valid input (see `seeds`) and is then changed in one to four places: in its
structure (a key, a value, a cell), and sometimes in its bytes.
"""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

from chaos.byte_damage import damage_bytes
from chaos.seeds import Table, experiments, instance, markets, schema, words
from chaos.tables import bid_table, change_cells, write_table
from mmfl.rng import Stream, stream

__all__ = ["Case", "bids_case", "config_case"]

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """An input file and the command that reads it.

    Attributes:
        arguments: The arguments of ``mmfl``; they name the file.
        name: The file's name.
        content: Its content; None = there is no such file, or the sandbox has made it.
        changes: What was changed, in words.
        keys: Words that may locate a mistake: keys and strings of the file and of the schema.
    """

    arguments: tuple[str, ...]
    name: str
    content: bytes | None
    changes: tuple[str, ...]
    keys: frozenset[str] = frozenset()


PLACES = ("folder", "missing.toml", "loop", "dangling", "full", "data", "zero", "locked")
"""What the sandbox has besides valid files. (mmfl waits for a pipe on the command line.)"""

PATHS = (
    *(*PLACES, "pipe"),
    *("", ".", "..", "/", "/dev/null", "bids.csv", "owners.csv", "owners.npy", "bad.npz"),
    *("real.npz", "groups.npz", "warm.safetensors", "link.csv", "junk.npy", "huge.npz", "~/x.csv"),
    *("x" * 300 + ".csv", "a\x00b.npy", "ünï/çödé.csv", "folder/", "empty.csv", "folder.npy"),
    *("header.npy", "bomb.npz", "pipe.csv", "zero.csv", "//bids.csv", "owners.csv/x.csv"),
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 100, 255, 1000, 65536, 10**6, 10**7, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**300, 10**400, -(10**18)),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -1e-9, 1e-300, 5e-324, 1e-12, 1e12, 1e100, 1.7e308),
    *(math.nan, math.inf, -math.inf, 1 + 1e-9, 0.999999999, 3.0, 1e9),
)
TEXTS = (
    *(
        "",
        " ",
        "\t",
        "a",
        "é",
        "名前",
        "🙈",
        "\u202e",
        "a\nb",
        "a\x00b",
        "a/b",
        "../x",
        ".",
        "..",
        "-",
    ),
    *("x" * 64, "x" * 65, "x" * 5000, "none", "null", "None", "true", "3", "1e5", "nan", "inf"),
    *("auto", "{file}", "%s%n", "os:system", "mmfl.nothing:X", ":", "a:b", "kind", "[tasks]", "\\"),
)
OTHERS: tuple[Any, ...] = (
    *(True, False, [], {}, [[]], [{}], {"kind": []}, {"kind": {}}, {"": 1}, {"kind": ""}),
    *([0], [1, 2], [2, 1], [1, 2, 3], [-1, 5], [1.5, 2.5], ["a", "b"], [10**6, 10**6], [True]),
    *(
        [2**31 - 1] * 2,
        [2**31 - 1],
        [1] * 500,
        [0.5] * 8,
        [math.nan],
        [math.inf, 1],
        {"a": {"b": 1}},
    ),
)


def _one(choices: Sequence[Any], rng: Stream) -> Any:
    return choices[int(rng.integers(len(choices)))]


def weird(rng: Stream) -> Any:
    """An unlikely value."""
    pool = _one((NUMBERS, NUMBERS, TEXTS, PATHS, OTHERS, tuple(sorted(words()))), rng)
    return copy.deepcopy(_one(pool, rng))


# Structure


def _nodes(tree: Any, path: Path = ()) -> Iterator[Path]:
    """The paths to everything inside a tree, lists included."""
    inside: Any = ()
    if isinstance(tree, dict):
        inside = tree.items()
    elif isinstance(tree, list):
        inside = enumerate(tree)
    for key, value in inside:
        yield (*path, key)
        yield from _nodes(value, (*path, key))


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


LETTERS = "abcxyz_-. é\"'"


def _misspelt(word: str, rng: Stream) -> str:
    place = int(rng.integers(len(word) + 1))
    match int(rng.integers(5)):
        case 0:
            return word[:place] + word[place + 1 :]
        case 1:
            return f"{word[:place]}{_one(LETTERS, rng)}{word[place:]}"
        case 2:
            return word.upper() if word != word.upper() else word.lower()
        case 3:
            return word[:place] + word[place : place + 2][::-1] + word[place + 2 :]
    return str(_one((*sorted(words()), *TEXTS), rng) or "x")


def _remove(tree: Table, path: Path, rng: Stream) -> None:
    del _at(tree, path[:-1])[path[-1]]


def _rename(tree: Table, path: Path, rng: Stream) -> None:
    parent = _at(tree, path[:-1])
    if isinstance(parent, dict):
        value = parent.pop(path[-1])
        parent[_misspelt(str(path[-1]), rng)] = value
    else:
        parent.insert(int(rng.integers(len(parent) + 1)), copy.deepcopy(parent[path[-1]]))


def _replace(tree: Table, path: Path, rng: Stream) -> None:
    _at(tree, path[:-1])[path[-1]] = weird(rng)


def _number(tree: Table, path: Path, rng: Stream) -> None:
    """Change a number; otherwise misspell a word, or change the type of a value."""
    parent, key = _at(tree, path[:-1]), path[-1]
    value = parent[key]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        parent[key] = weird(rng)
    elif isinstance(value, str):
        parent[key] = _misspelt(value, rng) if rng.random() < 0.6 else _one(TEXTS + PATHS, rng)
    else:
        near = (value + 1, value * 2, value / 2, value // 2, value * 10, 1 - value, value + 0.1)
        far = (-value, value * 1000, float(value), str(value), value * 10**9, *NUMBERS)
        parent[key] = _one(near if rng.random() < 0.6 else far, rng)


def _wrap(tree: Table, path: Path, rng: Stream) -> None:
    parent, key = _at(tree, path[:-1]), path[-1]
    value = parent[key]
    match int(rng.integers(5)):
        case 0:
            parent[key] = [value]
        case 1:
            parent[key] = {"kind": value}
        case 2:
            parent[key] = {str(key): value}
        case 3 if isinstance(value, list | dict) and value:
            parent[key] = next(iter(value.values() if isinstance(value, dict) else value))
        case _:
            for _ in range(int(rng.integers(2, 60))):
                value = [value] if rng.random() < 0.5 else {"x": value}
            parent[key] = value


def _add(tree: Table, path: Path, rng: Stream) -> None:
    """Add a known or an unknown key with any value to a table."""
    here = _at(tree, path)
    here = here if isinstance(here, dict) else tree
    known = rng.random() < 0.7
    here[_one(sorted(words()), rng) if known else _one(TEXTS, rng) or "y"] = weird(rng)


def _swap(tree: Table, path: Path, rng: Stream) -> None:
    """Replace a value by that of another node."""
    other = _one(list(_nodes(tree)), rng)
    _at(tree, path[:-1])[path[-1]] = copy.deepcopy(_at(tree, other))


def _section(tree: Table, path: Path, rng: Stream) -> None:
    """Add a section, or a key of a task, made from the schema: any kind of any family."""
    parts, here = schema()["properties"], tree
    tasks = tree.get("tasks")
    if rng.random() < 0.6 and isinstance(tasks, list) and tasks and isinstance(tasks[0], dict):
        parts, here = schema()["$defs"]["Task"]["properties"], _one(tasks, rng)
    if not isinstance(here, dict):
        return
    name = _one(sorted(parts), rng)
    value = instance(parts[name], rng)
    if value is not None:
        here[name] = value


Change = Callable[[Table, Path, Stream], None]
CHANGES: dict[str, Change] = {
    "remove": _remove,
    "rename": _rename,
    "replace": _replace,
    "number": _number,
    "wrap": _wrap,
    "add": _add,
    "swap": _swap,
    "section": _section,
}


def change_tree(tree: Table, rng: Stream) -> tuple[Table, list[str]]:
    """A tree with some changes, and their descriptions."""
    tree, done = copy.deepcopy(tree), []
    for _ in range(int(rng.choice([1, 2, 3, 4], p=[0.55, 0.25, 0.12, 0.08]))):
        paths = list(_nodes(tree))
        if not paths:
            break
        name = str(rng.choice(list(CHANGES), p=[0.1, 0.1, 0.14, 0.24, 0.08, 0.08, 0.06, 0.2]))
        path = _one(paths, rng)
        CHANGES[name](tree, path, rng)
        done.append(f"{name} {'.'.join(map(str, path))[:60]}")
    return tree, done


def _keys(tree: Any) -> Iterator[str]:
    for path in _nodes(tree):
        value = _at(tree, path)
        yield from (str(word) for word in (path[-1], value) if isinstance(word, str))


def _toml(tree: Table) -> bytes:
    """As TOML; if it cannot be written, text that is certainly invalid."""
    try:
        return tomli_w.dumps(tree).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        return f"unwritable = {error!r}\n".encode()


def _read(content: bytes) -> Table:
    """What the mutated file contains; nothing if it is no longer TOML."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}


# Cases


def config_case(seed: int, number: int) -> Case:
    """An experiment for ``mmfl check``."""
    rng = stream(seed, "chaos", "config", number)
    if rng.random() < 0.01:
        place = _one(PLACES, rng)
        return Case(("check", place), place, None, ("path",), words())
    tree, done = change_tree(_one(experiments(), rng), rng)
    content, hurt = damage_bytes(_toml(tree), rng, 0.2)
    keys = words() | frozenset((*_keys(tree), *_keys(_read(content))))
    return Case(("check", "case.toml"), "case.toml", content, (*done, *hurt), keys)


MECHANISMS = (
    *("max_min_fair", "budget_fair", "gmm_fair", "greedy_within_budget", "random_within_budget"),
    "value_threshold",
)


def bids_case(seed: int, number: int) -> Case:
    """A table of bids (or, one in eight, a market) for ``mmfl auction``."""
    rng = stream(seed, "chaos", "bids", number)
    rule = MECHANISMS[number % len(MECHANISMS)]
    limit = "--threshold" if rule == "value_threshold" else "--budget"
    amount = _one(("2", "0.5", "30", "1e-9", "1e15", "1e300"), rng)
    command = ("run", "run", "run", "compare", "check")[number // len(MECHANISMS) % 5]
    options: tuple[str, ...] = ("--mechanism", rule, limit, amount)
    if command == "compare":
        options = ("--budget", f"1,{amount}")
    if command == "check":
        options = (*options, "--clients", "2", "--tries", "32")
    if rng.random() < 0.2:
        options = (*options, "--json")
    if rng.random() < 0.02:
        place = _one((*PLACES, "junk.npy", "huge.csv"), rng)
        return Case(("auction", command, place, *options), place, None, ("path",))
    if rng.random() < 1 / 8:
        tree, done = change_tree(_one(markets(), rng), rng)
        content, hurt = damage_bytes(_toml(tree), rng, 0.15)
        known = (*_keys(tree), *_keys(_read(content)), "correlation")
        name, keys = "case.toml", words() | frozenset(known)
    else:
        cells = bid_table(rng)
        done = change_cells(cells, rng)
        content, hurt = damage_bytes(write_table(cells, rng), rng, 0.3)
        name, keys = "case.csv", frozenset[str]()
    arguments = ("auction", command, name, *options)
    return Case(arguments, name, content, (*done, *hurt), keys)
