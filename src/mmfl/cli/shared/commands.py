"""Commands with --set: an unknown option may be the name of a key."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Any

import click
from typer.core import TyperCommand, TyperGroup

from mmfl.cli.shared.debugging import make_debug_option, show_error
from mmfl.cli.shared.preconditions import check_preconditions
from mmfl.errors import MmflError
from mmfl.system.user_code import guard_own

__all__ = ["DebugCommand", "ExperimentCommand", "GuardedGroup", "PlainCommand"]


class GuardedGroup(TyperGroup):
    """A command that user code cannot end as if it had succeeded, e.g. with `typer.Exit(0)`.

    Its parts are guarded where they are called. This is for code that is not a part, such as the
    property of a class.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with guard_own():
                check_preconditions()
                return super().invoke(ctx)
        except (MmflError, MemoryError, OSError) as error:
            show_error(error)
            raise


class PlainCommand(TyperCommand):
    """A command whose help text has paragraphs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        paragraphs = cleandoc(self.help or "").split("\n\n")  # Typer would keep the line breaks
        self.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)


class DebugCommand(PlainCommand):
    """A command that may run user code, with --debug."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(make_debug_option())


class ExperimentCommand(DebugCommand):
    """A command with --set: ``--rounds 3`` gets the hint that it is ``--set rounds=3``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a key of the experiment as an option is a mistake with a hint."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-")
            several = f"--{name}s"  # of a key that this command takes several values for
            value = _value(given, error.option_name)
            if any(several in option.opts for option in self.params):
                raise _no_such_option(error, f"{several} {shlex.quote(value)}") from None
            key = next(_ways_to(name.replace("-", "_")), None)
            if key is None:
                raise
            change = shlex.quote(f"{key}={value}")
            raise _no_such_option(error, f"--set {change}") from None


def _no_such_option(error: click.NoSuchOption, hint: str) -> click.UsageError:
    said = f"No such option: {error.option_name}. Did you mean {hint}?"
    return click.UsageError(said, error.ctx)


def _value(words: list[str], option: str) -> str:
    """The value that was given for an option that does not exist."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[place + 1 : place + 2]), "...")
    return "..."


def _ways_to(name: str) -> Iterator[str]:
    """The keys of an experiment that end in this name, the shortest first."""
    from mmfl.experiment import Experiment

    schema = Experiment.json_schema()
    tables = {key: _keys(inner, schema["$defs"]) for key, inner in schema["properties"].items()}
    yield from (key for key in tables if key == name)
    yield from (f"{key}.{name}" for key, names in tables.items() if name in names)


def _keys(part: Mapping[str, Any], known: Mapping[str, Any]) -> set[str]:
    """The keys of a table that a part of the schema describes."""
    if "$ref" in part:
        part = known[part["$ref"].rsplit("/", 1)[1]]
    found = {*part.get("properties", {})} - {"kind"}
    return found.union(*(_keys(choice, known) for choice in part.get("anyOf", ())))
