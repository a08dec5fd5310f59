"""The report as one HTML file: no network, no inline handlers, every name escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from mmfl.errors import InputError
from mmfl.report.document.numbers import find, show
from mmfl.report.document.view import describe_period, prepare

__all__ = ["render_html"]

_FILES = files("mmfl.report.document") / "files"


def render_html(content: Mapping[str, Any]) -> str:
    """The page of a report."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError:
        raise InputError(
            "a report needs jinja2, which is not installed: pip install 'mmfl[report]'"
        ) from None

    def show_number(at: str, style: str) -> Markup:
        value = find(content, at)
        text = escape(show(value, style))
        if value is None:
            return text
        return Markup('<data value="{}" data-at="{}">{}</data>').format(repr(value), at, text)

    library, script = _read("uPlot.iife.min.js"), _read("report.js")
    style = _read("uPlot.min.css") + _read("report.css")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.globals |= {"n": show_number, "look": lambda at: find(content, at)}
    pages = prepare(content)
    _mark_pictures(pages, Markup)
    return environment.from_string(_read("report.html.j2")).render(
        content=content,
        pages=pages,
        when=describe_period(content),
        generator=f"mmfl {content['mmfl']} report",
        policy=Markup(policy),
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
        json=Markup(_make_json(content)),
    )


def _mark_pictures(value: Any, mark: Any) -> None:
    """Mark what was drawn as SVG, in which names are escaped already."""
    if isinstance(value, dict):
        if isinstance(value.get("svg"), str):
            value["svg"] = mark(value["svg"])
        for key, inner in value.items():
            if key != "chapter":
                _mark_pictures(inner, mark)
    elif isinstance(value, list):
        for inner in value:
            _mark_pictures(inner, mark)


def _read(name: str) -> str:
    """A file of the page, as the browser hashes it."""
    return "\n".join((_FILES / name).read_text(encoding="utf-8").splitlines()) + "\n"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _make_json(content: Mapping[str, Any]) -> str:
    """As it may stand in a script element: nothing in it can end that element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
