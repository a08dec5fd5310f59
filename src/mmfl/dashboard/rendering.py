"""Pages and files: templates in which every value is escaped, and files known by name only."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from mmfl.report.document import make_environment
from mmfl.report.document import read_file as read_report_file

__all__ = ["FILES", "Renderer", "read", "version_of"]

_OWN = files("mmfl.dashboard") / "files"

FILES = {
    "uPlot.min.css": "text/css",
    "report.css": "text/css",
    "dashboard.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "charts.js": "text/javascript",
    "dashboard.js": "text/javascript",
}
"""What pages load, and its media type; a request for another name is not found."""


@cache
def read(name: str) -> str:
    """A file of the dashboard's, or else of the report's."""
    own = _OWN / name
    return own.read_text(encoding="utf-8") if own.is_file() else read_report_file(name)


@cache
def version_of(name: str) -> str:
    """Changes when a file does, so that browsers may keep it."""
    return hashlib.sha256(read(name).encode()).hexdigest()[:12]


class Renderer:
    """Makes HTML from templates."""

    def __init__(self, title: str) -> None:
        self._environment = make_environment(read)
        self._environment.globals |= {"folder": title, "version": version_of}

    def page(self, template: str, /, **values: Any) -> str:
        """A whole page."""
        return self._environment.get_template(f"{template}.html.j2").render(**values)

    def part(self, template: str, macro: str, *values: Any) -> str:
        """A part of a page, by the macro that the page makes it with."""
        module = self._environment.get_template(f"{template}.html.j2").module
        return str(getattr(module, macro)(*values))
