"""``mmfl flower``: a federation on this machine, a node of one elsewhere, certificates and keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmfl.cli.shared.commands import DebugCommand, ExperimentCommand
from mmfl.cli.shared.options import (
    AllowImports,
    Config,
    DataDir,
    Json,
    Quiet,
    Sets,
    find_modules,
    stop_on_signals,
)
from mmfl.cli.shared.streams import NEVER_TRAINED, complain
from mmfl.errors import InputError

if TYPE_CHECKING:
    from mmfl.cli.views.progress import ProgressView
    from mmfl.experiment import Experiment
    from mmfl.flower import Told

__all__ = ["app"]

app = typer.Typer(help="Real federations with Flower.", no_args_is_help=True)


@app.command(cls=ExperimentCommand)
def up(
    config: Config,
    set_: Sets = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes to start (default: one for each client).")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="TLS and node authentication, with new certificates.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: a new one in runs/).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in the directory.")
    ] = False,
    data_dir: DataDir = None,
    allow_imports: AllowImports = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment on a Flower federation of processes on this machine.

    Starts a SuperLink, a SuperExec and a SuperNode for each client, and takes everything down at
    the end, whatever happens.
    """
    from mmfl.cli.views.progress import ProgressView
    from mmfl.flower import LocalFederation, NodeOptions
    from mmfl.runs import Run, find_run_folder

    if allow_imports:
        find_modules(config)
    experiment = _load(config, set_ or [], nodes, allow_imports=allow_imports)
    count = experiment.clients.count if nodes is None else nodes
    if count > experiment.clients.count:
        raise InputError(
            f"--nodes {count} are too many: the experiment has {experiment.clients.count} clients"
        )
    options = [
        NodeOptions(client, data_dir=data_dir, allow_imports=allow_imports)
        for client in range(count)
    ]
    wanted = Path("runs") / config.stem if out is None else out
    folder = find_run_folder(wanted, renumber=out is None, resume=resume)
    paths = [config.resolve().parent, Path.cwd()] if allow_imports else []
    view = ProgressView(experiment, sys.stderr if json else sys.stdout, quiet=quiet)

    def where() -> str:
        return f"the federation; resume the run with --resume --out {folder}"

    with stop_on_signals(where), view, LocalFederation(options, tls=tls, paths=paths) as federation:
        file = federation.folder / "experiment.toml"
        file.write_text(experiment.to_toml())
        told = {"out": str(folder.absolute()), "allow_imports": allow_imports}
        told |= {} if data_dir is None else {"data_dir": str(data_dir.absolute())}
        for event in federation.run(file, **told):
            _show(event, view)
    result = Run.load(folder)
    if json:
        typer.echo(result.to_json())
    elif not quiet:
        view.close_with(result)
    failed = [
        f"task {name!r} never trained: {turns.why}"
        for name, turns in result.outcomes.items()
        if turns.broken
    ]
    if failed:
        complain("; ".join(failed), loud=True)
        raise typer.Exit(NEVER_TRAINED)


def _load(config: Path, sets: list[str], nodes: int | None, *, allow_imports: bool) -> Experiment:
    """The experiment with the engine "flower", which waits for as many clients as get a node."""
    import dataclasses

    from mmfl.experiment import Experiment, Flower

    experiment = Experiment.load(config, sets=sets, allow_imports=allow_imports)
    engine = experiment.engine if isinstance(experiment.engine, Flower) else Flower()
    if nodes is not None and engine.nodes is None:
        engine = dataclasses.replace(engine, nodes=nodes)
    return dataclasses.replace(experiment, engine=engine)


def _show(event: Told, view: ProgressView) -> None:
    """Show one event."""
    from mmfl.flower import read_round
    from mmfl.runs import Run

    if event.kind == "start":
        folder = Path(event.values["folder"])
        view.show_start(folder, event.values["after"])
        view.show_recruitment(Run.load(folder).recruitment)
    elif event.kind == "round":
        view.show(read_round(event.values))
    elif event.kind == "warning":
        complain(f"warning: {event.values['said']}")


@app.command(cls=DebugCommand)
def node(
    superlink: Annotated[str, typer.Option(help="Address of the SuperLink, as host:port.")],
    client: Annotated[int, typer.Option(min=0, help="Which client this node is, from 0.")],
    root_certificates: Annotated[
        Path | None, typer.Option(help="The authority's certificate (ca.crt).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The node's private key.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without TLS, for tests only.")
    ] = False,
    data: Annotated[
        str, typer.Option(help="module:function that returns the node's own data of a task.")
    ] = "",
    bids: Annotated[
        str, typer.Option(help='What the node asks for each task, such as "heart=2.5 skin=3".')
    ] = "",
    data_dir: DataDir = None,
    allow_imports: Annotated[
        bool,
        typer.Option(
            "--allow-imports",
            help="Let the server's experiment name classes and functions installed here.",
        ),
    ] = False,
) -> None:
    """Serve one client of a federation, until it is interrupted.

    The node only runs the mmfl that is installed on it, never code that the server sends.
    """
    from mmfl.flower import NodeOptions, run_node

    if insecure == (root_certificates is not None):
        raise InputError("give either --root-certificates or --insecure")
    options = NodeOptions(client, data, bids, data_dir, allow_imports)
    with stop_on_signals(lambda: f"serving client {client}"):
        run_node(options, superlink, certificates=root_certificates, key=key, show=typer.echo)


@app.command(cls=DebugCommand)
def keys(
    folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    host: Annotated[list[str], typer.Option(help="Name or address of the server (repeatable).")],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes get a key.")],
) -> None:
    """Make certificates for a server and a key for each node."""
    from mmfl.flower import make_certificates, make_node_key, refuse_missing_flower

    refuse_missing_flower()
    folder.mkdir(mode=0o700, parents=True, exist_ok=False)
    make_certificates(folder, host)
    for number in range(nodes):
        make_node_key(folder / f"node{number}")
    typer.echo(
        f"{folder}: copy ca.crt to every node, and one of node0 ... node{nodes - 1} to each; "
        "server.pem, server.key and the .pub files stay on the server"
    )


@app.command("app", cls=DebugCommand)
def write_app_command(
    folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
) -> None:
    """Write the Flower app that `flwr run` sends to a federation."""
    from mmfl.flower import write_app

    write_app(folder)
    typer.echo(f"run it with: flwr run {folder} NAME --run-config 'experiment=\"/path/fair.toml\"'")
