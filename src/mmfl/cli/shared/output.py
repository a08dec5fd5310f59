"""Files that a command writes: never its own input, and no existing file without permission.

What cannot be written is refused before the work begins; `new_file` does the writing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from mmfl.errors import InputError, StoreError
from mmfl.system import calls
from mmfl.system.files import exists, is_folder, make_folders, new_file

__all__ = ["Figure", "Force", "check_figure", "check_out", "check_out_folder", "output"]

Force = Annotated[bool, typer.Option("--force", help="Replace existing files (never the input).")]
Figure = Annotated[
    Path | None, typer.Option(help="Save a figure to this file: .png, .svg or .pdf.")
]


def check_out(path: Path | None, *, inputs: Iterable[Path], force: bool) -> None:
    """Refuse an --out that is one of the inputs, or that exists and may not be replaced."""
    if path is None:
        return
    _refuse_inputs(path, inputs, "--out")
    _refuse_existing(path, "--out", force=force)


def _refuse_existing(path: Path, option: str, *, force: bool) -> None:
    try:
        kind = calls.status(path, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
    if stat.S_ISLNK(kind) and exists(path):
        kind = calls.status(path).st_mode
    if stat.S_ISDIR(kind):
        raise StoreError(f"{option}: {str(path)!r} is a folder; name a file")
    if not (force or stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):  # /dev/stdout loses nothing
        raise StoreError(
            f"{option}: {str(path)!r} already exists; name another file, or replace it with --force"
        )


def check_figure(
    path: Path | None, *, inputs: Iterable[Path], force: bool, out: Path | None = None
) -> None:
    """Refuse a --figure that cannot be drawn, or that would replace another file."""
    if path is None:
        return
    from mmfl.report.figures import check_path

    check_path(path)
    _refuse_inputs(path, inputs, "--figure")
    if out is not None and _same(path, out):
        raise InputError(f"--figure and --out are the same file, {str(path)!r}")
    _refuse_existing(path, "--figure", force=force)


def check_out_folder(folder: Path, names: Iterable[str], *, inputs: Collection[Path]) -> None:
    """Refuse a folder in which files of these names would overwrite an input."""
    for path in (folder / name for name in names):
        if any(_same(path, given) or _is_inside(path, given) for given in inputs):
            raise InputError(f"{str(path)!r} is the input; choose another folder")


@contextmanager
def output(path: Path, *, force: bool, folders: bool = False) -> Iterator[TextIO]:
    """Open a file to write text; one sentence if that fails. `folders`: make its folders."""
    try:
        if folders:
            make_folders(path.parent)
        with new_file(path, replace=force) as file:
            yield file
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None


def _refuse_inputs(path: Path, inputs: Iterable[Path], option: str) -> None:
    for given in inputs:
        if _same(path, given):
            raise InputError(f"{option}: {str(path)!r} is the input; name another file")
        if _is_inside(path, given):
            raise InputError(
                f"{option}: {str(path)!r} is in the input {str(given)!r}; name another folder"
            )


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, through links or another spelling."""
    try:
        if os.path.realpath(one) == os.path.realpath(other):
            return True
        return os.path.samestat(calls.status(one), calls.status(other))
    except (OSError, ValueError):
        return False


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into a folder, such as one of images."""
    try:
        inner, outer = os.path.realpath(path), os.path.realpath(folder)
        return is_folder(Path(outer)) and os.path.commonpath([inner, outer]) == outer
    except (OSError, ValueError):
        return False
