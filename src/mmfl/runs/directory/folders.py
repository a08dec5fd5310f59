"""Which folder a run gets, where several may have the same name."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.system.files import exists, is_folder, is_link, list_folder

__all__ = [
    "FolderTakenError",
    "find_run_folder",
    "free_folder",
    "last_folder",
    "no_run",
    "refuse_link",
    "refuse_taken",
]


class FolderTakenError(StoreError):
    """A folder for a new run holds something already."""


def refuse_taken(folder: Path) -> None:
    """A directory that holds anything is never written into."""
    if exists(folder) and not is_folder(folder):
        raise FolderTakenError(f"{str(folder)!r} is a file; choose a folder for the run")
    if exists(folder) and list_folder(folder):
        advice = "choose another folder"
        if exists(folder / "run.sqlite"):
            advice += ", or resume that run with resume=True"
        raise FolderTakenError(f"{str(folder)!r} already exists; {advice}")


def refuse_link(place: Path, shown: Path) -> None:
    """Refuse to write or to remove anything in a folder inside a run that is a symbolic link.

    Args:
        place: The folder, absolute.
        shown: The same, as messages show it.
    """
    if is_link(place):
        raise StoreError(f"{str(shown)!r} is a link that does not belong to this run; remove it")


def no_run(folder: Path, lacks: str) -> StoreError:
    """The error for a path that leads to no run: a run directory has the file `lacks`."""
    if is_folder(folder):
        one = _find_compared(folder, lacks)
        if one is not None:
            return StoreError(
                f"{str(folder)!r} is a comparison; name one of its runs, such as {one}"
            )
        return StoreError(f"{str(folder)!r} is not a run directory (it has no {lacks})")
    if exists(folder):
        return StoreError(f"{str(folder)!r} is a file, not a run directory")
    return StoreError(f"{str(folder)!r} does not exist")


def _find_compared(folder: Path, lacks: str) -> Path | None:
    """The first run in a folder of `mmfl compare`; None if the folder is not one."""
    with suppress(OSError):
        for variant in sorted(filter(is_folder, list_folder(folder))):
            runs = [run for run in list_folder(variant) if run.name.startswith("seed-")]
            found = [run for run in runs if exists(run / lacks)]
            if found:
                return min(found)
    return None


def find_run_folder(wanted: Path, *, renumber: bool, resume: bool) -> Path:
    """The folder of a run that another process is going to write.

    Args:
        wanted: Its name.
        renumber: If `wanted` is taken, use `wanted`-2, -3, ...; to resume, the last that exists.
        resume: Whether a run that is there is resumed.
    """
    if renumber:
        return (last_folder if resume else free_folder)(wanted)
    if not resume:
        refuse_taken(wanted)
    return wanted


def free_folder(wanted: Path) -> Path:
    """`wanted`, or `wanted`-2, -3, ...: the first that does not exist."""
    number, folder = 1, wanted
    while exists(folder):
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def last_folder(wanted: Path) -> Path:
    """`wanted`, or `wanted`-2, -3, ...: the last that exists; `wanted` if none does."""
    numbered = re.compile(rf"{re.escape(wanted.name)}-([1-9]\d*)")
    try:
        siblings = list_folder(wanted.parent) if is_folder(wanted.parent) else []
    except OSError as error:
        raise StoreError(f"cannot read {str(wanted.parent)!r}: {error.strerror}") from None
    found = {int(m[1]): path for path in siblings if (m := numbered.fullmatch(path.name))}
    return found[max(found)] if found else wanted
