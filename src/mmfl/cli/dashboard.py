"""``mmfl dashboard``: the runs in a folder, live, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.options import name_options_of
from mmfl.errors import InputError, StoreError, printable
from mmfl.system.files import exists, is_folder

if TYPE_CHECKING:
    from mmfl.dashboard import Access

__all__ = ["dashboard"]


def dashboard(
    folder: Annotated[Path, typer.Argument(help="A folder with runs.", show_default=True)] = Path(
        "runs"
    ),
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="The port to listen at (default: 8765, or the next free one).", min=0, max=65535
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MMFL_DASHBOARD_TOKEN",
            show_envvar=False,
            help="What a browser must know before it may start, stop or resume runs; with another "
            "--host, before it may see anything. The default is a new one each time. "
            "$MMFL_DASHBOARD_TOKEN does the same, and no other user can see it.",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A name of this machine by which browsers call it, with another --host "
            "(repeatable)."
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Show the runs in a folder in the browser, live: http://127.0.0.1:8765.

    Runs are listed, watched while they go on, compared, started, stopped and resumed. Everything is
    read from the run directories, so it does not matter who started the runs.

    Only this machine can open the page. With another --host, others can, and need the token.
    Ctrl-C ends the dashboard; runs go on.
    """
    try:
        from mmfl.dashboard import Access, is_local, make_token, serve
    except ImportError as error:
        raise InputError(
            f"the dashboard needs {error.name}, which is not installed: "
            "pip install 'mmfl[dashboard]'"
        ) from None

    if exists(folder) and not is_folder(folder):
        raise StoreError(f"{str(folder)!r} is a file, not a folder")
    if folder != Path("runs") and not exists(folder):
        raise StoreError(f"{str(folder)!r} does not exist; name a folder with runs")
    if not is_local(host) and token is None:
        raise InputError(
            f"--host {host} lets other machines in, so --token is needed: choose a long one"
        )
    with name_options_of("host", "port", "token"):
        access = Access(
            address=host,
            token=make_token() if token is None else token,
            names=tuple(one.lower() for one in name or ()),
        )

    def announce(ready: Access) -> None:
        _announce(folder, ready, shown=token is None, browse=open_)

    try:
        with name_options_of("host", "port"):
            serve(folder, access, port, announce)
    except KeyboardInterrupt:
        typer.echo("the dashboard has ended")


def _announce(folder: Path, access: Access, *, shown: bool, browse: bool) -> None:
    """Say where it is."""
    host = f"[{access.address}]" if ":" in access.address else access.address
    address = f"http://{host}:{access.port}/"
    whole = f"{address}?token={access.token}"
    typer.echo(printable(f"dashboard of {folder}: {whole if shown else address}"))
    if shown:
        typer.echo("The token in it lets a browser start, stop and resume runs.")
    typer.echo("Ctrl-C ends the dashboard; runs go on")
    if browse:
        import webbrowser

        webbrowser.open(whole)
