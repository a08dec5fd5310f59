"""``mmfl remove``: remove runs and comparisons, after asking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mmfl.errors import InputError, StoreError, plural, printable
from mmfl.system import calls
from mmfl.system.files import is_folder, is_link, list_folder, remove_file

__all__ = ["remove"]


@dataclass(frozen=True)
class _Target:
    """What is to be removed.

    Attributes:
        folder: A run directory, or a comparison's.
        runs: The run directories.
        files: The comparison's own files.
    """

    folder: Path
    runs: tuple[Path, ...]
    files: tuple[Path, ...] = ()


def remove(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Run directories, or folders of comparisons.", show_default=False
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs and comparisons, after asking.

    Only what mmfl wrote is removed: a folder without the mark of a run, or with a file of yours, is
    refused, and so is a run that is in use.
    """
    from mmfl.runs import read_overview, remove_run
    from mmfl.system.memory import size

    targets = [_find_target(folder) for folder in folders]
    runs = [read_overview(run) for target in targets for run in target.runs]
    for run in runs:
        if run.state == "running":
            raise StoreError(f"{str(run.folder)!r} is in use by another process; stop it first")
    for target in targets:
        typer.echo(printable(f"{target.folder}: {_describe(target)}"))
    whole = size(sum(run.bytes for run in runs))
    if not yes:
        _ask(f"Remove {plural(len(runs), 'run')} ({whole})?")
    for target in targets:
        for folder in target.runs:
            remove_run(folder)
        for path in target.files:
            remove_file(path)
        if target.runs != (target.folder,):
            _remove_empty(target.folder)
    typer.echo(f"removed {plural(len(runs), 'run')}, {whole}")


def _describe(target: _Target) -> str:
    from mmfl.runs import count_runs, read_overview

    return count_runs([read_overview(run) for run in target.runs])


def _ask(question: str) -> None:
    """Ask; anything but yes ends the command."""
    if not sys.stdin.isatty():
        raise InputError("nothing is removed without an answer; use --yes where nobody can answer")
    if not typer.confirm(question):
        typer.echo("nothing was removed")
        raise typer.Exit(1)


def _find_target(folder: Path) -> _Target:
    """What a folder holds, checked: all of it may be removed."""
    from mmfl.cli.shared.own_files import OwnFiles
    from mmfl.runs import check_folder, check_removable, find_runs, is_run, place_of

    check_folder(folder)
    if is_link(folder) or not is_folder(folder) or is_run(folder):
        check_removable(folder)
        return _Target(folder, (folder,))
    runs = find_runs(folder).runs
    places = [place_of(run) for run in runs]
    if not runs or any(place is None or place.folder != folder for place in places):
        check_removable(folder)  # it is not a run either
    for run in runs:
        check_removable(run)
    files = tuple(OwnFiles(folder, force=False).list_ours())
    for path in _list_all(folder, set(runs)):
        if path not in files:
            raise StoreError(
                f"{str(folder)!r} is not removed: it holds {str(path.relative_to(folder))!r}, "
                "which mmfl did not write; move that file first"
            )
    return _Target(folder, runs, files)


def _list_all(folder: Path, runs: set[Path]) -> Iterator[Path]:
    """All files in a comparison's folder that are not in a run."""
    for path in list_folder(folder):
        if path in runs:
            continue
        if is_folder(path) and not is_link(path):
            yield from _list_all(path, runs)
        else:
            yield path


def _remove_empty(folder: Path) -> None:
    """Remove the folders of variants, and that of the comparison, if they are empty."""
    for path in list_folder(folder):
        if is_folder(path) and not is_link(path):
            _remove_empty(path)
    with suppress(OSError):
        calls.remove_folder(folder)
