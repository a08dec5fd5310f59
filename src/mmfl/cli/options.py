"""Options that several commands share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mmfl.errors import MmflError, ResourceError
from mmfl.memory import ran_out

__all__ = [
    "AllowImports",
    "Config",
    "DataDir",
    "Json",
    "Quiet",
    "Sets",
    "about",
    "allowed",
    "find_modules",
    "stopped_by_signals",
]

Config = Annotated[
    Path, typer.Argument(help="The experiment, a TOML file.", show_default=False, readable=False)
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="A.B=C", help="Change a key, e.g. allocator.alpha=5 (repeatable)."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder of npz data sets; by default MMFL_DATA, else a cache."),
]
AllowImports = Annotated[
    bool,
    typer.Option("--allow-imports", help="Let the experiment name classes of yours (module:Name)."),
]

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing (but JSON, if asked for).")
]


@contextmanager
def about(file: Path) -> Iterator[None]:
    """A mistake that shows in this block is one of this file's: its sentence names it."""
    try:
        yield
    except MmflError as error:
        if str(file) in str(error):
            raise
        raise type(error)(f"{file}: {error}") from None
    except MemoryError as error:
        raise ResourceError(f"{file}: {ran_out(error)}") from None


@contextmanager
def stopped_by_signals(message: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is in this block with one sentence and exit code 130 or 143."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt as stop:
        typer.echo(f"mmfl: stopped {message()}", err=True)
        raise typer.Exit(143 if stop.args else 130) from None


def _terminate(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)


def allowed(imports: bool, config: Path) -> bool:
    """Whether imports are allowed; if so, modules beside the file are found."""
    if imports:
        find_modules(config)
    return imports


def find_modules(config: Path) -> None:
    """Let imports find modules in this folder and beside the experiment."""
    sys.path[:0] = [os.getcwd(), str(config.resolve().parent)]
