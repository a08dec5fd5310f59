"""The report as one HTML file: no network, no inline handlers, every name escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mmfl.errors import InputError
from mmfl.report.document.numbers import find, show
from mmfl.report.document.view import describe_period, prepare

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["make_environment", "make_json", "read_file", "render_body", "render_html"]

_FILES = files("mmfl.report.document") / "files"


def make_environment(read: Callable[[str], str] | None = None) -> Environment:
    """Jinja's environment for pages: every value is escaped, and a misspelt name is an error.

    Args:
        read: From a template's name to its text; by default those of the report.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError:
        raise InputError(
            "a report needs jinja2, which is not installed: pip install 'mmfl[report]'"
        ) from None
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        loader=FunctionLoader(read or read_file),
    )


def render_html(content: Mapping[str, Any]) -> str:
    """The page of a report."""
    environment = make_environment()
    from markupsafe import Markup

    library = read_file("uPlot.iife.min.js")
    script = read_file("charts.js") + read_file("report.js")
    style = read_file("uPlot.min.css") + read_file("report.css")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("report.html.j2").render(
        **_prepare(content, environment),
        generator=f"mmfl {content['mmfl']} report",
        policy=Markup(policy),
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
    )


def render_body(content: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a report for a page of its own: its HTML as "body", and its data as "json"."""
    environment = make_environment()
    from markupsafe import Markup

    values = _prepare(content, environment)
    body = environment.get_template("report_body.html.j2").render(**values)
    return {"body": Markup(body), "json": values["json"], "when": values["when"]}


def _prepare(content: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """What the templates of a report need."""
    from markupsafe import Markup, escape

    def show_number(at: str, style: str) -> Markup:
        value = find(content, at)
        text = escape(show(value, style))
        if value is None:
            return text
        return Markup('<data value="{}" data-at="{}">{}</data>').format(repr(value), at, text)

    environment.globals |= {"n": show_number, "look": lambda at: find(content, at)}
    pages = prepare(content)
    _mark_pictures(pages, Markup)
    return {
        "content": content,
        "pages": pages,
        "when": describe_period(content),
        "json": Markup(make_json(content)),
    }


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


def read_file(name: str) -> str:
    """A file of the page, as the browser hashes it."""
    return "\n".join((_FILES / name).read_text(encoding="utf-8").splitlines()) + "\n"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def make_json(content: Mapping[str, Any]) -> str:
    """As it may stand in a script element: nothing in it can end that element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
