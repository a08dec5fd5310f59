"""Files of an export: none is replaced unless that is wanted, and none is ever half written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mmfl.errors import StoreError
from mmfl.runs.directory.mark import is_marked
from mmfl.runs.directory.names import make_absolute
from mmfl.system.files import exists, is_folder, make_folders

__all__ = ["explain_writing", "prepare_folder"]


def prepare_folder(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Make a folder for these files, or refuse before anything is written.

    Args:
        folder: The folder.
        names: The files that will be written, relative to it.
        force: Whether files that exist may be replaced.
    """
    place = make_absolute(folder)
    with explain_writing(folder):
        above = filter(is_folder, (place, *place.parents))
        run = next(filter(is_marked, above), None)
        if run is not None:
            raise StoreError(
                f"{str(folder)!r} is in the run directory {str(run)!r}; name another folder"
            )
        if exists(folder) and not is_folder(folder):
            raise StoreError(f"{str(folder)!r} is a file; name another folder")
        taken = None if force else next((name for name in names if exists(folder / name)), None)
        if taken is not None:
            raise StoreError(
                f"{str(folder / taken)!r} already exists; name another folder, or replace it with "
                "force=True"
            )
        make_folders(folder)


@contextmanager
def explain_writing(path: Path) -> Iterator[None]:
    """Turn errors of files in this block into one sentence."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"cannot write {str(path)!r}: {reason}") from None
