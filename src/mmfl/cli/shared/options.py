"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.shared.streams import complain
from mmfl.errors import InputError, MmflError, ResourceError
from mmfl.system.memory import describe_shortage
from mmfl.system.user_code import add_prefix

__all__ = [
    "AllowImports",
    "Config",
    "DataDir",
    "Json",
    "Quiet",
    "Sets",
    "find_modules",
    "name_file",
    "name_options_of",
    "prepare_imports",
    "stop_on_signals",
]

Config = Annotated[
    Path, typer.Argument(help="The experiment (a TOML file).", show_default=False, readable=False)
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="A.B=C", help="Change a key, e.g. allocator.alpha=5 (repeatable)."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Folder of npz data sets (default: $MMFL_DATA, or ~/.cache/mmfl)."
    ),
]
AllowImports = Annotated[
    bool,
    typer.Option(
        "--allow-imports",
        help="Let the experiment import your own classes and functions (module:Name).",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing except the JSON of --json.")
]


@contextmanager
def name_file(file: Path) -> Iterator[None]:
    """Put the file's name in front of mistakes that are found in this block.

    A mistake in a --set is left as it is.
    """
    try:
        yield
    except MmflError as error:
        if str(file) in str(error) or str(error).startswith("sets: "):
            raise
        raise add_prefix(error, f"{file}: ") from error.__cause__
    except MemoryError as error:
        raise ResourceError(f"{file}: {describe_shortage(error)}") from None


@contextmanager
def name_options_of(*options: str) -> Iterator[None]:
    """Name the option in messages about a value that was given with it.

    Args:
        options: Names of options that a sentence may begin with, without their dashes.
    """
    try:
        yield
    except InputError as error:
        if str(error).partition(" ")[0].rstrip(":") not in options:
            raise
        raise add_prefix(error, "--") from error.__cause__


@contextmanager
def stop_on_signals(message: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end what is in this block with one sentence.

    The exit code is 130, 143 or 129. `message` is called after everything is closed.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        complain(f"stopped {message()}")
        raise typer.Exit(getattr(interrupt, "exit_code", 130)) from None


def prepare_imports(imports: bool, config: Path) -> bool:
    """Whether imports are allowed; if so, modules next to the file are found."""
    if imports:
        find_modules(config)
    return imports


def find_modules(config: Path) -> None:
    """Let imports find modules next to the experiment and, if they are not there, in this folder.

    The experiment of a run directory also finds them where that run did: environment.json says so.
    """
    folder = config.resolve().parent
    sys.path[:0] = [str(folder), os.getcwd()]
    sys.path += [
        path for path in _read_import_folders(folder / "environment.json") if path not in sys.path
    ]


def _read_import_folders(path: Path) -> list[str]:
    """The folders of modules that the file about a run names, if there is one, and that exist."""
    from json import loads

    from mmfl.system.files import SETTINGS, is_folder, read_text

    try:
        found = loads(read_text(path, limit=SETTINGS))["path"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    folders = found if isinstance(found, list) else []
    return [folder for folder in folders if isinstance(folder, str) and is_folder(Path(folder))]
