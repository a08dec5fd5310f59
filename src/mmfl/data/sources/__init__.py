"""Where data sets come from: the catalogue, downloads, and checks of what was fetched.

The names are imported when they are first used: the catalogue is all that training needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mmfl.data.sources.catalogue import CATALOGUE, Entry

if TYPE_CHECKING:
    from mmfl.data.sources.fetching import Message, fetch
    from mmfl.data.sources.local_files import DatasetRow, files, find_dataset, list_datasets
    from mmfl.data.sources.verification import check_content

__all__ = [
    "CATALOGUE",
    "DatasetRow",
    "Entry",
    "Message",
    "check_content",
    "fetch",
    "files",
    "find_dataset",
    "list_datasets",
]

_HOMES = {
    "DatasetRow": "local_files",
    "Message": "fetching",
    "check_content": "verification",
    "fetch": "fetching",
    "files": "local_files",
    "list_datasets": "local_files",
    "find_dataset": "local_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
