"""Write the generated pages of docs/reference: configuration keys, and the command line.

    python -m tools.reference            # writes both pages
    python -m tools.reference --check    # exits with 1 if a page is out of date

The keys, their types, defaults and limits come from `Experiment.json_schema()`. Their descriptions
are the docstrings. `tests/docs/test_docs_reference.py` checks that the committed pages are current.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
from click import Argument, Command, Group, Option

from mmfl import Experiment
from mmfl.cli import app
from mmfl.config import Family
from mmfl.experiment import LocalTraining, RecruitmentSettings, Task

__all__ = ["PAGES", "describe_commands", "describe_keys", "main"]

HOUSE = Path(__file__).parents[1]
LARGEST = 2**31 - 1
"""Limits from here on only say that a number must fit into memory; no reader needs them."""

SAME_KINDS = {
    "recruitment.tasks": "recruitment.bids",
    "tasks.lr": "local.lr",
    "tasks.optimizer": "local.optimizer",
}
"""Keys that take the kinds of another key."""

Schema = dict[str, Any]

KEYS_HEAD = """\
# Configuration keys

<!-- Generated from the schema by `python -m tools.reference`. Do not edit this page. -->

Every key of an experiment file, with its type, default and meaning. This page is generated from
the schema that mmfl validates files with. [The experiment file](experiment-file.md) explains how
the keys work together. `mmfl schema` prints the same schema as JSON, for editors.

A setting with *kinds* takes a table with `kind` and the settings of that kind. A kind whose
settings all have defaults can be written as a plain string: `aggregator = "median"`.
`kind = "module:Name"` names [your own class or function](own-parts.md).
"""

COMMANDS_HEAD = """\
# Command line

<!-- Generated from the command line by `python -m tools.reference`. Do not edit this page. -->

Every command, argument and option. `mmfl COMMAND --help` shows the same text.
[Exit codes](exit-codes.md) are listed on their own page.
"""


def describe_keys() -> str:
    """The page of all configuration keys."""
    schema = Experiment.json_schema()
    known = schema["$defs"]
    parts = [KEYS_HEAD, "## Top level\n", _table(schema, known)]
    for key, rule in schema["properties"].items():
        if key != "tasks":
            parts += _section(key, rule, known)
    parts += _section("tasks", schema["properties"]["tasks"], known)
    return "\n".join(parts)


def _section(key: str, rule: Schema, known: Schema, level: int = 2) -> Iterator[str]:
    """What a reader must know of a table: its text, its keys, and the kinds of each of them."""
    mark = "#" * level
    heading = "`[[tasks]]`" if key == "tasks" else f"`{key}`"
    table = _find_table(rule, known)
    if table is not None:
        yield f"{mark} {heading}\n"
        yield f"{_summary(table)}\n"
        yield _table(table, known)
        for name, inner in table["properties"].items():
            path = f"{key}.{name}"
            if path != "tasks.local" and (_kinds(inner) or _find_table(inner, known)):
                yield from _section(path, inner, known, 3)
    elif key in SAME_KINDS:
        yield f"{mark} {heading}\n"
        yield f"The kinds of `{SAME_KINDS[key]}`.\n"
    elif _kinds(rule):
        yield f"{mark} {heading}\n"
        for kind, choice in _kinds(rule).items():
            yield f"{mark}# {key} = `{kind}`\n"
            yield f"{_summary(choice)}\n"
            if "kind" not in choice.get("required", []):
                yield "A table without `kind` is of this kind.\n"
            if len(choice["properties"]) > 1:
                yield _table(choice, known)


def _table(table: Schema, known: Schema) -> str:
    """The keys of a table of the schema, a line each."""
    texts = _attributes(table.get("description", ""))
    kinds = _default_kinds(table["title"])
    local = known["LocalOverride"]["properties"]
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for name, rule in table["properties"].items():
        if name == "kind":
            continue
        required = name in table.get("required", [])
        default = "required" if required else _default(rule, kinds.get(name))
        text = texts.get(name, "As in `local`." if name in local else "")
        lines.append(f"| `{name}` | {_type(rule, known)} | {default} | {_cell(text)} |")
    return "\n".join(lines) + "\n"


def _find_table(rule: Schema, known: Schema) -> Schema | None:
    """The table with fixed keys that a key takes, if it takes one."""
    for choice in (rule, rule.get("items", {}), *rule.get("anyOf", ())):
        if "$ref" in choice:
            found: Schema = known[choice["$ref"].rsplit("/", 1)[1]]
            return found
    return None


def _kinds(rule: Schema) -> dict[str, Schema]:
    """From kind to its table, for a key that takes components."""
    choices = [rule, rule.get("additionalProperties") or {}]
    inner = [choice for outer in choices for choice in outer.get("anyOf", ())]
    return {
        choice["properties"]["kind"]["const"]: choice
        for choice in inner
        if "const" in choice.get("properties", {}).get("kind", {})
    }


def _type(rule: Schema, known: Schema) -> str:
    """A key's type and limits, in words."""
    if _kinds(rule):
        return "tables with kinds" if "additionalProperties" in rule else "one of the kinds below"
    if "enum" in rule:
        return " or ".join(f"`{json.dumps(value)}`" for value in rule["enum"])
    if "const" in rule:
        return f"`{json.dumps(rule['const'])}`"
    if "anyOf" in rule:
        words = [_type(choice, known) for choice in rule["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    if "$ref" in rule:
        return "table"
    if "prefixItems" in rule:
        kinds = dict.fromkeys(_type(item, known) for item in rule["prefixItems"])
        return f"list of {len(rule['prefixItems'])}: {', '.join(kinds)}"
    if rule.get("type") == "array":
        items = _type(rule.get("items", {}), known)
        least, most = rule.get("minItems"), rule.get("maxItems")
        count = f" {most}" if most is not None and least == most else ""
        return "tables" if items == "table" else f"list of{count}: {items}"
    names = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "string"}
    name = names.get(rule.get("type", ""), "anything")
    return " ".join([name, *_limits(rule)])


def _limits(rule: Schema) -> Iterator[str]:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    known = {key: sign for key, sign in signs.items() if abs(rule.get(key, LARGEST)) < LARGEST}
    found = [f"{sign} {rule[key]:g}" for key, sign in known.items()]
    if found:
        yield ", ".join(found)


@cache
def _default_kinds(title: str) -> dict[str, str]:
    """From key to the kind of its default, for the keys that take components."""
    holders: dict[str, Any] = {
        cls.__name__: cls for cls in (Experiment, LocalTraining, RecruitmentSettings, Task)
    }
    if title not in holders:
        return {}
    hints = typing.get_type_hints(holders[title], include_extras=True)
    found = {}
    for field in dataclasses.fields(holders[title]):
        metadata = getattr(hints[field.name], "__metadata__", ())
        family = next((part for part in metadata if isinstance(part, Family)), None)
        written = (
            family.dump(field.default)
            if family and dataclasses.is_dataclass(field.default)
            else None
        )
        if isinstance(written, dict):
            found[field.name] = written["kind"]
    return found


def _default(rule: Schema, kind: str | None) -> str:
    """A key's default; for a component, its kind."""
    value = rule.get("default")
    if _kinds(rule) and value is not None and kind:
        return f'`"{kind}"`'
    if isinstance(value, dict):
        return f"`{value['value']}`" if "value" in value else "see below"
    if value is None or value == []:
        return "not set"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _summary(table: Schema) -> str:
    """A docstring without its list of attributes."""
    return _paragraphs(re.split(r"\n\s*Attributes:\n", table.get("description", ""))[0])


def _attributes(docstring: str) -> dict[str, str]:
    """From attribute to its description, in Google's style."""
    _, _, listed = docstring.partition("Attributes:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w+: )", "\n" + listed.rstrip()):
        name, _, text = entry.strip().partition(": ")
        found[name] = " ".join(text.split())
    return found


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def describe_commands() -> str:
    """The page of all commands."""
    parts = [COMMANDS_HEAD]
    for name, command in _walk("mmfl", typer.main.get_command(app)):
        parts.append(f"## `{name}`\n")
        parts.append(_paragraphs(command.help or "") + "\n")
        parts.append(f"```text\n{_usage(name, command)}\n```\n")
        options = [param for param in command.params if isinstance(param, Option)]
        rows = [row for row in map(_parameter, command.params) if row]
        if rows and options:
            head = ["| option | default | meaning |", "|---|---|---|"]
            parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


def _walk(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    """Every command that does something, with its full name."""
    if not isinstance(command, Group):
        yield name, command
        return
    for inner in command.commands.values():
        yield from _walk(f"{name} {inner.name}", inner)


def _paragraphs(text: str) -> str:
    """A text with its lines filled, as the other pages are."""
    parts = [part for part in _plain(text).split("\n\n") if part.strip()]
    return "\n\n".join(textwrap.fill(" ".join(part.split()), 100) for part in parts)


def _usage(name: str, command: Command) -> str:
    words = [name, "[OPTIONS]"]
    for param in command.params:
        if isinstance(param, Argument):
            shown = _placeholder(param) + ("..." if param.nargs == -1 else "")
            words.append(shown if param.required else f"[{shown}]")
    return " ".join(words)


def _placeholder(param: Argument) -> str:
    return re.sub(r"[^A-Z]", "", (param.metavar or param.name or "").upper())


def _parameter(param: Any) -> str:
    """A line about an argument or an option."""
    if isinstance(param, Argument):
        return (
            f"| `{_placeholder(param)}` | {'required' if param.required else ''} | {_help(param)} |"
        )
    if not isinstance(param, Option) or param.name == "help" or param.hidden:
        return ""
    names = ", ".join(f"`{name}`" for name in sorted(param.opts, key=len, reverse=True))
    value = "" if param.is_flag or not param.metavar else f" `{_cell(param.metavar)}`"
    shown = param.default if isinstance(param.default, int | str) and not param.is_flag else ""
    default = "required" if param.required else f"`{shown}`" if shown != "" else ""
    return f"| {names}{value} | {default} | {_help(param)} |"


def _help(param: Any) -> str:
    text = " ".join((getattr(param, "help", "") or "").split())
    return _cell(text).replace("\\[", "[")


PAGES = {
    HOUSE / "docs/reference/configuration.md": describe_keys,
    HOUSE / "docs/reference/command-line.md": describe_commands,
}
"""From a generated page to what writes it."""


def main() -> None:
    """Write the pages, or check that they are current."""
    parser = argparse.ArgumentParser(description="The generated pages of docs/reference.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    given = parser.parse_args()
    stale = [page for page, write in PAGES.items() if _read(page) != write()]
    if not given.check:
        for page in stale:
            page.write_text(PAGES[page](), encoding="utf-8")
    elif stale:
        sys.exit(f"out of date: {', '.join(page.name for page in stale)}; run tools.reference")


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8") if page.exists() else ""


if __name__ == "__main__":
    main()
