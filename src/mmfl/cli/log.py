"""``mmfl log``: what happened in a run, round by round."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmfl.cli.shared.options import stop_on_signals
from mmfl.cli.shared.streams import complain
from mmfl.errors import printable
from mmfl.system import calls

if TYPE_CHECKING:
    from mmfl.runs import Event

__all__ = ["log"]

_PAUSE = 1.0
"""Seconds between two looks at a run that is followed."""


def log(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=1, help="Show only the last N rounds.")
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Show only rounds in which something failed.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep showing new rounds until the run ends.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print each event as a line of JSON.")
    ] = False,
) -> None:
    """Show what happened in a run: its start, the auction, each round, failures, resumes, its end.

    A round's line has each task's metric, how many updates were accepted, and the time.

    The exit code is 1 if the run is damaged.
    """
    from json import dumps

    from mmfl.runs import no_nan

    damage = ""
    with stop_on_signals(lambda: f"following {folder}"):
        for event in _read(folder, tail, follow=follow):
            if failures and event.kind == "round" and not _went_wrong(event):
                continue
            lines = [dumps(no_nan(event.as_data()))] if json else map(printable, _describe(event))
            for line in lines:
                typer.echo(line)
            damage = event.about.get("damage", "")
    if damage:
        complain(f"the run in {str(folder)!r} is damaged and should not be trusted: {damage}")
        raise typer.Exit(1)


def _went_wrong(event: Event) -> bool:
    return bool(event.about["failures"] or event.about["faults"])


def _read(folder: Path, tail: int | None, *, follow: bool) -> Iterator[Event]:
    """The events of a run, or of its last rounds; until it ends if it is followed."""
    from mmfl.runs import RunStore, read_events

    with closing(RunStore.open(folder, damaged=True)) as store:
        ((newest,),) = store.rows("SELECT count(*) FROM round")
        events = list(read_events(store, 0 if tail is None else max(newest - tail, 0)))
    yield from events
    shown = {(event.kind, str(event.about.get("time"))) for event in events}
    last = events[-1].round if events else newest
    while follow and ("end", "None") not in shown:
        calls.sleep(_PAUSE)
        with closing(RunStore.open(folder, damaged=True, checked=False)) as store:
            ((newest,),) = store.rows("SELECT count(*) FROM round")
            last = min(last, newest)  # a resumed run goes back
            events = list(read_events(store, last))
        for event in events:
            key = (event.kind, str(event.about.get("time")))
            if event.kind == "round" or key not in shown:
                shown.add(key)
                yield event
                last = event.round
        sys.stdout.flush()


def _describe(event: Event) -> Iterator[str]:
    """The lines about an event."""
    about = event.about
    if event.kind in ("start", "resume"):
        what = "started" if event.kind == "start" else f"resumed after round {event.round}"
        made = about["made_with"]
        with_ = ", ".join(f"{name} {made[name]}" for name in ("mmfl", "torch") if name in made)
        by = f" by: {shlex.join(about['command'])}" if about["command"] else ""
        yield f"{about['time'] or 'at an unknown time'}  {what}{f' ({with_})' * bool(with_)}{by}"
    elif event.kind == "auction":
        taken = ", ".join(f"{name} {task['take_up']:g}" for name, task in about["tasks"].items())
        yield f"auction ({about['mechanism']}): recruited for {taken}"
    elif event.kind == "round":
        yield from _describe_round(event.round, about)
    else:
        reason = f": {about['reason']}" if about["reason"] else ""
        print_ = f", fingerprint {about['fingerprint']}" if about["fingerprint"] else ""
        yield f"{about['status']} after round {event.round}{reason}{print_}"


def _describe_round(number: int, about: dict[str, Any]) -> Iterator[str]:
    tasks = "  ".join(
        f"{name} {_format(task['metric'])} ({task['clients']})"
        for name, task in about["tasks"].items()
    )
    away = f"  {about['quarantined']} in quarantine" if about["quarantined"] else ""
    yield f"round {number}  {tasks}  {about['seconds']:.2f} s{away}"
    for one in about["failures"]:
        what = "turn" if one["turn"] else "answer"
        where = f"client {one['client']}, {one['task']}"
        yield f"  failed {what}: {where}: {one['reason']}: {one['detail']}"
    for one in about["faults"]:
        yield f"  fault: client {one['client']}, {one['task']}: {one['kind']}, {one['outcome']}"


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
