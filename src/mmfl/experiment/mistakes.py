"""Mistakes in an experiment file and in changes to it: each with the source that is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmfl.errors import ConfigError, plural
from mmfl.experiment.local_training import LOCAL_KEYS
from mmfl.experiment.parts import gather_local_keys

__all__ = ["join_mistakes", "move_into_local", "name_sources"]


def name_sources(mistakes: Sequence[str], in_file: Sequence[str], path: str) -> ConfigError:
    """One error for all mistakes, each with its source: the file, `sets`, or both.

    Args:
        mistakes: Those of the file with its changes.
        in_file: Those of the file alone.
        path: The file.
    """
    unread = [mistake for mistake in mistakes if mistake.startswith("sets: ")]
    if unread:  # nothing was changed, so the file is as wrong as it is alone
        return join_mistakes([*unread, *(f"{path}: {mistake}" for mistake in in_file)])
    # What a change repairs may have hidden another mistake of the file: then both are to blame.
    repaired = any(mistake not in mistakes for mistake in in_file)
    new = f"{path} with sets" if repaired else "sets"
    return join_mistakes([f"{path if one in in_file else new}: {one}" for one in mistakes])


def join_mistakes(mistakes: Sequence[str]) -> ConfigError:
    """The first mistake, how many more there are, and all of them as `ConfigError.mistakes`."""
    more = f" (and {plural(len(mistakes) - 1, 'more error')})" if len(mistakes) > 1 else ""
    return ConfigError(f"{mistakes[0]}{more}", mistakes)


def move_into_local(data: dict[str, Any], assignment: str) -> str:
    """``tasks.NAME.lr=...`` as ``tasks.NAME.local.lr=...``, wherever the file has its own."""
    path, equals, value = assignment.partition("=")
    match path.split("."):
        case ["tasks", name, key] if key in LOCAL_KEYS and isinstance(data.get("tasks"), list):
            try:
                tables = [gather_local_keys(t) if isinstance(t, dict) else t for t in data["tasks"]]
            except ValueError:  # the file's mistake, which is found when its tasks are read
                return assignment
            data["tasks"] = tables
            return f"tasks.{name}.local.{key}{equals}{value}"
    return assignment
