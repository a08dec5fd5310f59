"""A run's models in a form to hand on: `mmfl export --model`.

<task>/model.safetensors    the weights, as `load_state_dict` takes them
<task>/config.json          how the model is built and used, and its result
<task>/README.md            the same for people: a model card
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from safetensors.numpy import save

from mmfl.errors import InputError, StoreError
from mmfl.experiment import read_table
from mmfl.runs.export.card import CardFacts, Result, write_card
from mmfl.runs.export.writing import explain_writing, prepare_folder
from mmfl.runs.models import (
    HEADER,
    StoredModel,
    check_described,
    find_network,
    read_stored_model,
)
from mmfl.runs.result import Run, no_nan
from mmfl.runs.verification import find_damage
from mmfl.system.files import write_file
from mmfl.system.user_code import warn_user

__all__ = ["export_models"]

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"


def export_models(
    folder: Path, out: Path, *, force: bool = False, allow_imports: bool = False
) -> list[Path]:
    """Write each task's model into a folder of its own; the paths of the files.

    Args:
        folder: The run directory.
        out: Where the tasks' folders are made.
        force: Whether files that exist may be replaced.
        allow_imports: Whether networks that the run names as ``module:Name`` may be imported.
            It is not necessary: their weights are written as the run has them.
    """
    run = Run.load(folder)
    damage = find_damage(folder)
    if damage:
        raise StoreError(f"the run in {str(folder)!r} is damaged: {damage}")
    for task in run.tasks:
        check_described(folder, task)
    names = [f"{task}/{name}" for task in run.tasks for name in (WEIGHTS, CONFIG, CARD)]
    prepare_folder(out, names, force=force)
    written = []
    for task in run.tasks:
        stored = read_stored_model(folder, task)
        files = _make_files(run, stored, allow_imports=allow_imports)
        for name, content in files.items():
            path = out / task / name
            with explain_writing(path):
                write_file(path, content)
            written.append(path)
        for remark in stored.remarks:
            warn_user(remark)
    return written


def _make_files(run: Run, stored: StoredModel, *, allow_imports: bool) -> dict[str, bytes]:
    """The content of a task's files, by name."""
    from mmfl.train import build_model, read_state, write_source

    about, weights, source = stored.description, dict(stored.weights), None
    try:
        model = find_network(about, None, allow_imports=allow_imports)
    except InputError:  # it is not to be imported here, or was passed in memory elsewhere
        pass
    else:
        network = build_model(model, about, stored.weights).network
        weights, source = read_state(network), write_source(network)
    others = [task for task in run.tasks if task != about.task]
    facts = CardFacts(about, _find_result(run, stored), others, stored.remarks, source)
    config = about.to_table() | {"result": dataclasses.asdict(facts.result)}
    return {
        WEIGHTS: save(weights, metadata={HEADER: about.to_json()}),
        CONFIG: f"{json.dumps(no_nan(config), indent=2)}\n".encode(),
        CARD: write_card(facts).encode("utf-8", "backslashreplace"),
    }


def _find_result(run: Run, stored: StoredModel) -> Result:
    task = stored.description.task
    turns, values, (kind, better) = run.outcomes[task], run.tasks[task], run.metrics[task]
    clients = read_table(run.folder / "experiment.toml").get("clients")
    count = clients.get("count") if isinstance(clients, dict) else None
    return Result(
        metric=kind,
        better=better,
        value=values["metric"],
        loss=values["loss"],
        status=run.status,
        round=stored.round,
        rounds=run.planned,
        accepted=turns.accepted,
        failed=turns.failed,
        clients=count if isinstance(count, int) else None,
        data_sha256=run.data.get(task),
        fingerprint=run.fingerprint,
        made_with={name: v for name, v in run.made_with.items() if name in ("mmfl", "torch")},
    )
