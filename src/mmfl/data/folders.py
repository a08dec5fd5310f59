"""Where files of data are: the data folder, and mmfl's own cache."""

from __future__ import annotations

import os
from pathlib import Path

from mmfl.errors import DataError
from mmfl.system.files import exists, is_file, is_folder

__all__ = [
    "data_folder",
    "default_folder",
    "find_cache",
    "find_input",
    "is_file_here",
    "is_folder_here",
    "looked_in",
    "wanted_folder",
    "what_is_wrong",
]


def data_folder(data_dir: str | Path | None) -> Path | None:
    """The folder of npz files: as given, or else what MMFL_DATA says."""
    path = wanted_folder(data_dir)
    if path is not None and not is_folder_here(path):
        given = "data_dir" if data_dir is not None else "MMFL_DATA"
        raise DataError(
            f"the data folder {str(path)!r} {what_is_wrong(path)} (it was set by {given}); name "
            "another with data_dir or MMFL_DATA"
        )
    return path


def wanted_folder(data_dir: str | Path | None) -> Path | None:
    """The folder that is given, or that MMFL_DATA names, whether it exists or not."""
    folder = data_dir if data_dir is not None else os.environ.get("MMFL_DATA") or None
    return None if folder is None else _expand_home(folder)


def default_folder() -> Path:
    """Where names are looked up, and fetched to, if no data folder is set: mmfl's own cache."""
    return _expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mmfl"


def find_cache() -> Path | None:
    """`default_folder`, or None where the user has no home."""
    try:
        return default_folder()
    except DataError:
        return None


def _expand_home(folder: str | Path) -> Path:
    """With the user's home in place of ``~``; an empty HOME counts as not set."""
    path = Path(folder)
    try:
        if path.parts[:1] == ("~",) and os.environ.get("HOME") == "" and os.name == "posix":
            import pwd  # Python would take an empty HOME for the root of the file system

            return Path(pwd.getpwuid(os.getuid()).pw_dir, *path.parts[1:])
        return path.expanduser()
    except (RuntimeError, KeyError):  # HOME is not set, and the system does not know this user
        raise DataError(
            f"the data folder {str(folder)!r} is in a home folder, but none is known; set HOME, or "
            "name another data folder with data_dir or MMFL_DATA"
        ) from None


def find_input(name: str, data_dir: Path | None, *, folder: bool = False) -> Path:
    """The file or folder that a data set names: in the data folder if there is one.

    What is neither a file nor a folder, such as a pipe, is left to the one who opens it.

    Args:
        name: Its path.
        data_dir: The data folder; None = what MMFL_DATA says, or else where mmfl runs.
        folder: Whether it must be a folder.
    """
    path = (data_folder(data_dir) or Path()) / name
    if is_folder_here(path) != folder or not _exists(path):
        wrong = what_is_wrong(path)
        if wrong != "does not exist":
            wrong += f", not a {'folder' if folder else 'file'}"
        raise DataError(f"data set {str(path)!r} {wrong}{looked_in(path)}")
    return path


def _exists(path: Path) -> bool:
    try:
        return exists(path)
    except OSError:  # a name too long
        return False


def is_file_here(path: Path) -> bool:
    """Whether that is a file; a name that the system refuses is none."""
    try:
        return is_file(path)
    except OSError:
        return False


def is_folder_here(path: Path) -> bool:
    """Whether that is a folder; a name that the system refuses is none."""
    try:
        return is_folder(path)
    except OSError:
        return False


def what_is_wrong(path: Path) -> str:
    """Why something is not what is expected, as the end of a sentence."""
    if is_file_here(path):
        return "is a file"
    return "is a folder" if is_folder_here(path) else "does not exist"


def looked_in(path: Path) -> str:
    """Where a relative path was looked for, as the end of a sentence."""
    return "" if path.is_absolute() else f" in {str(Path.cwd())!r}"
