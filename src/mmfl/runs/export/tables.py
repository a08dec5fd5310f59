"""Every table of a run as a CSV file (RFC 4180, UTF-8): `mmfl export --csv`.

A cell is empty where nothing was measured. Text that a spreadsheet would take for a formula, since
it begins with ``=``, ``+``, ``-`` or ``@``, gets an apostrophe before it; control characters are
shown escaped.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mmfl.errors import printable
from mmfl.runs.export.writing import explain_writing, prepare_folder
from mmfl.runs.records import RECORDS, read_records
from mmfl.runs.store import RunStore
from mmfl.system.files import new_file
from mmfl.system.user_code import warn_user

__all__ = ["export_tables"]

_FORMULA = ("=", "+", "-", "@")


def export_tables(folder: Path, out: Path, *, force: bool = False) -> Mapping[Path, int]:
    """Write a run's tables, one file each; from the files' paths to how many records they have.

    Args:
        folder: The run directory.
        out: The folder of the files, which is made if it is missing.
        force: Whether files that exist may be replaced.
    """
    with closing(RunStore.open(folder)) as store:
        prepare_folder(out, [f"{name}.csv" for name in RECORDS], force=force)
        meta = store.meta()
        if meta.get("status") != "finished":
            ((done,),) = store.rows("SELECT count(*) FROM round")
            warn_user(
                f"the run in {str(folder)!r} is not finished: its tables have {done} of "
                f"{meta.get('rounds', '?')} rounds"
            )
        return {out / f"{name}.csv": _write(store, name, out / f"{name}.csv") for name in RECORDS}


def _write(store: RunStore, name: str, path: Path) -> int:
    count = 0
    with explain_writing(path), new_file(path, replace=True) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RECORDS[name][0]._fields)
        for count, record in enumerate(read_records(store, name), 1):  # noqa: B007
            writer.writerow(map(_cell, record))
    return count


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value  # csv writes None as nothing, and floats so that they are read back exactly
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
