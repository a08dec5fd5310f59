"""``mmfl report``: runs as one page, with a verdict, curves, clients, auction and failures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from mmfl.cli.shared.output import Force
from mmfl.cli.shared.streams import complain
from mmfl.errors import InputError, StoreError, printable
from mmfl.system.files import is_folder, open_file, write_file
from mmfl.system.memory import size

__all__ = ["report"]

_HEAD = 2000
"""How many bytes of a file say whether it is a report."""

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...", help="Runs, comparisons, or folders of runs.", show_default=False
    ),
]


def report(
    folders: Runs,
    html: Annotated[
        Path | None,
        typer.Option(help="Where to save the page (default: report.html, if nothing is named)."),
    ] = None,
    md: Annotated[Path | None, typer.Option("--md", help="Save it as Markdown, too.")] = None,
    pdf: Annotated[
        Path | None,
        typer.Option("--pdf", help="Save it as PDF, too; needs Chromium or another browser."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Count the rounds until the worst task's metric reaches this value (default: one "
            "that all variants reach)."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the report.")] = "",
    force: Force = False,
) -> None:
    """Write a report on runs: one file that needs no network, to look at or to send.

    It has a verdict with numbers, what was run, curves of every task, where the clients went, the
    auction, failures, times, the environment and the configuration. Several runs are compared:
    those that differ only in their seed are one variant.

    A report may replace an older one; any other file is replaced only with --force.

    The exit code is 1 if a run was left out.
    """
    from mmfl.report.document import (
        find_browser,
        gather,
        render_html,
        render_markdown,
        render_pdf,
    )

    if target is not None and not math.isfinite(target):
        raise InputError(f"--target must be a number, got {target}")
    if html is None and md is None and pdf is None:
        html = Path("report.html")
    wanted = {"--html": html, "--md": md, "--pdf": pdf}
    outputs = {option: path for option, path in wanted.items() if path is not None}
    for option, path in outputs.items():
        _check(path, option, force=force)
    if len(set(outputs.values())) < len(outputs):
        raise InputError(f"{' and '.join(outputs)} name the same file; name different ones")
    if pdf is not None:
        find_browser()
    content = gather(folders, target=target, title=title)
    page = "" if html is None and pdf is None else render_html(content)
    for option, path in outputs.items():
        if option == "--pdf":
            made = render_pdf(page)
        else:
            made = (page if option == "--html" else render_markdown(content)).encode()
        try:
            write_file(path, made)
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
        typer.echo(printable(f"report: {path} ({size(len(made))})"))
    left_out = content["left_out"]
    for one in left_out:
        complain(f"{one['folder']} is left out: {one['why']}")
    if left_out:
        raise typer.Exit(1)


def _check(path: Path, option: str, *, force: bool) -> None:
    """Refuse a file that is there and is not a report."""
    if is_folder(path):
        raise StoreError(f"{option}: {str(path)!r} is a folder; name a file")
    try:
        with open_file(path) as file:
            head = file.read(_HEAD)
    except FileNotFoundError:
        return
    except OSError as error:
        if force:
            return
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None
    if (
        not force
        and b'name="generator" content="mmfl' not in head
        and not head.startswith(b"<!-- mmfl report -->")
    ):
        raise StoreError(
            f"{option}: {str(path)!r} already exists and is not a report; name another file, or "
            "replace it with --force"
        )
