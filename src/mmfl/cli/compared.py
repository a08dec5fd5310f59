"""``mmfl compare RUN RUN ...``: finished runs side by side; nothing is trained."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mmfl.cli.shared.output import check_figure
from mmfl.cli.shared.streams import NEVER_TRAINED, complain
from mmfl.errors import InputError, StoreError, plural
from mmfl.system.files import exists, is_folder

if TYPE_CHECKING:
    from mmfl.report import Collection, Remark, Variant

__all__ = ["compare_stored", "find_config"]


def find_config(sources: Sequence[Path], given: Mapping[str, object]) -> Path | None:
    """The experiment, or None if runs are named; both together are refused.

    Args:
        sources: What is to be compared.
        given: The options that only an experiment can have, by name.
    """
    if not any(map(is_folder, sources)):
        if len(sources) == 1:
            return sources[0]
        raise InputError(
            f"one experiment can be compared at a time, got {len(sources)} files: choose variants "
            "with --vary, or name the folders of finished runs"
        )
    for path in sources:
        if not is_folder(path):
            what = "an experiment and runs cannot be compared together" if exists(path) else ""
            raise InputError(f"{str(path)!r}: {what or 'there is no such file or folder'}")
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise InputError(f"--{wrong} changes an experiment, but runs are compared as they are")
    return None


def compare_stored(
    folders: Sequence[Path],
    *,
    target: float | None,
    out: Path | None,
    figure: Path | None,
    force: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Print the tables of finished runs; write them if there is a folder for them."""
    from mmfl.cli.shared.own_files import OwnFiles
    from mmfl.cli.views.console import open_console
    from mmfl.report import collect, data, remarks

    check_figure(figure, inputs=[], force=force)
    collection = collect(folders).finished()
    variants = collection.variants
    if not variants:
        first, why = next(iter(collection.left_out.items()))
        raise StoreError(f"no run is finished; {first}: {why}")
    doubts = collection.remarks()
    about = [*doubts, *remarks(variants)]
    own = None if out is None else OwnFiles(out, force=force)
    if own is not None and out is not None:
        _refuse_runs(out)
        own.check(out / f"comparison.{kind}" for kind in ("md", "json"))
    found = {"runs": _name_runs(collection), **data(variants, target)}
    found["remarks"] = [remark.line for remark in about]
    tables = _tables(variants, target, about)
    if own is not None and out is not None:
        text = "\n\n".join(table.markdown() for table in tables) + "\n"
        own.write(out / "comparison.md", text.encode())
        own.write(out / "comparison.json", f"{json_.dumps(found, indent=1)}\n".encode())
    if json:
        typer.echo(json_.dumps(found))
    else:
        console = open_console(quiet=quiet)
        for table in tables:
            console.print(table)
            console.print()
    if figure is not None:
        _draw(variants, figure, collection)
    serious = [remark for remark in about if remark.serious]
    if serious:
        complain(serious[0].line.removeprefix("! "))
        raise typer.Exit(1 if any(remark.serious for remark in doubts) else NEVER_TRAINED)


def _tables(variants: list[Variant], target: float | None, about: list[Remark]) -> list[Any]:
    from mmfl.report import Differences, Results, quantities, select_comparable

    tables: list[Any] = [Results(variants, target, about)]
    paired = select_comparable(variants)
    if len(paired) > 1:
        tables.append(Differences(paired, quantities(paired[0], target), about))
    return tables


def _refuse_runs(out: Path) -> None:
    """Refuse to write into a run directory."""
    from mmfl.runs import is_run

    if is_folder(out) and is_run(out):
        raise InputError(f"--out: {str(out)!r} is a run directory; choose another folder")


def _name_runs(collection: Collection) -> dict[str, dict[str, str]]:
    """From variant and seed to the run directory."""
    return {
        name: {str(seed): str(run.folder) for seed, run in by_seed.items()}
        for name, by_seed in collection.runs.items()
    }


def _draw(variants: list[Variant], figure: Path, collection: Collection) -> None:
    from mmfl.report.figures import save_comparison

    kinds = {kind for variant in variants for kind in variant.curves.kinds}
    runs = plural(sum(map(len, collection.runs.values())), "run")
    metric = kinds.pop() if len(kinds) == 1 else "metric"
    save_comparison(variants, figure, subtitle=f"{runs}.", metric=metric)
