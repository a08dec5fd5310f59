"""File names of a run, tried before anything is trained: a name may be too long, or unwritable."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.errors import InputError, StoreError
from mmfl.system import calls
from mmfl.system.files import is_folder

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["OWN_FILE", "check_folder", "check_names", "make_absolute", "slugify"]

OWN_FILE = re.compile(
    r"mmfl-run\.json|experiment\.toml|environment\.json|models/\w[\w.+-]*\.safetensors"
)
"""The names of the files of a run whose hashes are in its database."""


def check_folder(folder: Path) -> None:
    """Refuse a path that no run directory can have."""
    try:
        calls.status(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{str(folder)!r} cannot hold a run: {reason}") from None


def make_absolute(folder: Path) -> Path:
    """Where a folder is, whatever the current folder becomes; messages show it as it was given."""
    try:
        return folder.absolute()
    except OSError as error:
        raise StoreError(
            f"{str(folder)!r} cannot hold a run: the current folder: {error.strerror}"
        ) from None


def check_names(folder: Path, experiment: Experiment) -> None:
    """Refuse tasks that no file in a run directory can be named after."""
    there = next((path for path in (folder, *folder.parents) if is_folder(path)), Path())
    for task in experiment.tasks:
        longest = f"model-{task.name}.{'0' * 16}.safetensors.part"
        try:
            calls.status(there / longest)
        except FileNotFoundError:
            continue
        except UnicodeEncodeError:
            raise StoreError(
                f"task {task.name!r} cannot be used as a file name here, because the locale's "
                f"encoding is {sys.getfilesystemencoding()}; set PYTHONUTF8=1, or rename the task"
            ) from None
        except OSError as error:
            raise StoreError(
                f"task {task.name!r} cannot be used as a file name in {str(folder)!r}: "
                f"{error.strerror}"
            ) from None


def slugify(name: str) -> str:
    """The name of a variant's folder; a long one ends in a hash, so that no two are the same."""
    slug = re.sub(r"[^\w.=+-]+", "-", name).strip("-.")
    if not slug:
        raise InputError(f"a variant's name must have a letter or a digit, got {name!r}")
    if len(slug.encode()) > 100:
        start = slug.encode()[:90].decode(errors="ignore")
        slug = f"{start}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return slug
