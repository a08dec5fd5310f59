"""Remove run directories: only what a run wrote, only with its mark, and never while it runs.

A folder without the mark `mmfl-run.json` is not touched, and neither is one with a file that a run
does not write. The mark is removed last, so a removal that was cut short can be done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.runs.database import explain_errors
from mmfl.runs.directory.folders import no_run, refuse_link
from mmfl.runs.directory.lock import LEASE, Lease
from mmfl.runs.directory.mark import BEGINNING, MARK, is_marked
from mmfl.runs.directory.names import check_folder, make_absolute
from mmfl.system import calls
from mmfl.system.files import exists, is_folder, is_link, list_folder, remove_file, sync_folder

__all__ = ["check_removable", "remove_run"]

_INSIDE = {
    "models": re.compile(r"\w[\w.+-]*\.safetensors(\.part)?"),
    "checkpoints": re.compile(
        r"(round-\d+\.[0-9a-f]+\.json|(model-[^/\\]+|clients|arrays)\.[0-9a-f]+\.safetensors)"
        r"(\.part)?"
    ),
}
"""What a run writes into the folders inside its directory."""


def check_removable(folder: Path) -> None:
    """Refuse a folder that is not a run directory of ours, or that holds anything else."""
    check_folder(folder)
    if is_link(folder):
        raise StoreError(f"{str(folder)!r} is a link; name the run directory itself")
    if not is_folder(folder):
        raise no_run(folder, MARK)
    if not is_marked(folder):
        if exists(folder / "run.sqlite"):
            raise StoreError(
                f"{str(folder)!r} has no {MARK}, so it may be yours; remove it yourself"
            )
        raise no_run(folder, MARK)
    with explain_errors("read", folder):
        for name in _INSIDE:
            refuse_link(make_absolute(folder) / name, folder / name)
        foreign = next(_foreign(folder), None)
    if foreign is not None:
        raise StoreError(
            f"{str(folder)!r} is not removed: it holds {foreign!r}, which mmfl did not write; "
            "move that file first"
        )


def remove_run(folder: Path) -> None:
    """Remove a run directory; `StoreError` if it may not be, or if it is in use."""
    check_removable(folder)
    with ExitStack() as stack:
        stack.enter_context(explain_errors("remove", folder))
        lease = stack.enter_context(closing(Lease(folder)))
        lease.take()
        check_removable(folder)  # as it is now that nobody else changes it
        for name in _INSIDE:
            inside = folder / name
            if is_folder(inside):
                for path in list_folder(inside):
                    remove_file(path)
                calls.remove_folder(inside)
        for path in list_folder(folder):
            if path.name != MARK and not LEASE.fullmatch(path.name):
                remove_file(path)
        sync_folder(folder)
        for path in list_folder(folder):
            if LEASE.fullmatch(path.name):
                remove_file(path)
        remove_file(folder / MARK)
        with suppress(OSError):  # something was put there in this moment
            calls.remove_folder(folder)


def _foreign(folder: Path) -> Iterator[str]:
    """What is in a run directory that no run writes."""
    for path in list_folder(folder):
        names = _INSIDE.get(path.name)
        if names is not None and is_folder(path):
            for inner in list_folder(path):
                if not names.fullmatch(inner.name) or is_folder(inner):
                    yield f"{path.name}/{inner.name}"
        elif is_folder(path) or not (path.name in BEGINNING or LEASE.fullmatch(path.name)):
            yield path.name
