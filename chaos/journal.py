"""A file of finished cases, so that an interrupted examination resumes where it stopped.

The first line says what is examined. A journal about something else is overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Journal"]


class Journal:
    """The results of cases, by name; in memory only if there is no file.

    Args:
        file: Where they are kept.
        subject: What is examined: the commit, the scenario, the options.
    """

    def __init__(self, file: Path | None, subject: Mapping[str, Any]) -> None:
        self._file = file
        self.done: dict[str, Any] = {}
        if file is None:
            return
        head = json.dumps(dict(subject))
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        if lines[:1] == [head]:
            self.done = dict(json.loads(line) for line in lines[1:-1])  # the last may be incomplete
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [json.dumps(row) for row in self.done.items()]
        file.write_text("".join(f"{line}\n" for line in (head, *rows)), encoding="utf-8")

    def add(self, case: str, result: Any) -> None:
        """Store the result of a case."""
        self.done[case] = result
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([case, result])}\n")
