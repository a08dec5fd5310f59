"""Find the runs and comparisons in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mmfl.errors import InputError, StoreError
from mmfl.runs.directory.names import check_folder, slugify
from mmfl.runs.overview import is_run
from mmfl.system.files import exists, is_folder, is_link, list_folder, read_file

__all__ = ["Catalog", "Place", "find_runs", "order_variants", "place_of"]

_DEEPEST = 4
"""How many folders below the given one a run may be."""

_MOST = 20_000
"""How many folders are searched at most."""

_SEED = re.compile(r"seed-(\d{1,18})")
_TABLES = 1 << 26


@dataclass(frozen=True)
class Place:
    """Where a run of a comparison is: FOLDER/VARIANT/seed-SEED.

    Attributes:
        folder: The comparison's.
        variant: The name of the variant's folder.
        seed: The seed.
    """

    folder: Path
    variant: str
    seed: int


@dataclass(frozen=True)
class Catalog:
    """What is in a folder.

    Attributes:
        folder: The folder.
        runs: The run directories, in the order of their names; seed-2 comes before seed-10.
        others: Folders directly in it that hold no run.
        unread: Folders that cannot be read, or that were not searched because there are too many.
    """

    folder: Path
    runs: tuple[Path, ...]
    others: tuple[Path, ...]
    unread: tuple[Path, ...]


@dataclass
class _Search:
    """What was found so far."""

    left: int
    runs: list[Path] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)


def find_runs(folder: Path) -> Catalog:
    """All runs in a folder and in the folders inside it; the folder may be a run itself.

    Hidden folders and links to folders are not searched, but a link to a run is a run.
    """
    check_folder(folder)
    if not is_folder(folder):
        what = "is a file, not a folder" if exists(folder) else "does not exist"
        raise StoreError(f"{str(folder)!r} {what}")
    search = _Search(_MOST)
    try:
        if is_run(folder):
            return Catalog(folder, (folder,), (), ())
        inside = _folders(folder)
    except OSError as error:
        raise StoreError(f"cannot read {str(folder)!r}: {error.strerror}") from None
    others = []
    for path in inside:
        before = len(search.runs) + len(search.unread)
        _search(path, _DEEPEST - 1, search)
        if len(search.runs) + len(search.unread) == before:
            others.append(path)
    return Catalog(folder, tuple(search.runs), tuple(others), tuple(search.unread))


def _search(folder: Path, depth: int, search: _Search) -> None:
    search.left -= 1
    if search.left < 0:
        if search.left == -1:
            search.unread.append(folder)
        return
    try:
        if is_run(folder):
            search.runs.append(folder)
        elif depth and not is_link(folder):
            for path in _folders(folder):
                _search(path, depth - 1, search)
    except OSError:
        search.unread.append(folder)


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, in the order of their names."""
    found = [path for path in list_folder(folder) if path.name[:1] != "." and is_folder(path)]
    return sorted(found, key=_natural)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Numbers in a name are ordered as numbers."""
    parts = re.findall(r"\d+|\D+", path.name)
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in parts]


def place_of(run: Path) -> Place | None:
    """Where a run is in its comparison; None if its path is not one of a comparison's runs."""
    seed = _SEED.fullmatch(run.name)
    if seed is None or len(run.parts) < 2 or not run.parent.name:
        return None
    return Place(run.parent.parent, run.parent.name, int(seed[1]))


def order_variants(folder: Path, variants: Iterable[str]) -> dict[str, str]:
    """From the folders of a comparison's variants to their names, in the comparison's order.

    The comparison's own files say which; without them it is the order of the folders.

    Args:
        folder: The comparison's.
        variants: The names of the variants' folders.
    """
    left = dict.fromkeys(variants)
    found = {}
    for name in [*_names(folder / "comparison.json"), *_names(folder / "mmfl-compare.json")]:
        try:
            slug = slugify(name)
        except InputError:
            continue
        if slug in left:
            del left[slug]
            found[slug] = name
    return found | {slug: slug for slug in left}


def _names(path: Path) -> list[str]:
    """The variants that a file of a comparison names, none if it cannot be read."""
    if is_link(path):
        return []
    try:
        variants = json.loads(read_file(path, limit=_TABLES))["variants"]
        names = [one["name"] if isinstance(one, dict) else one for one in variants]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)]
