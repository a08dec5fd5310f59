"""Trained models, from a run directory or from a file, ready to use without the training data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from safetensors import SafetensorError
from safetensors.numpy import load

from mmfl.config import component, hash_module, imports_allowed, is_in_memory, parse
from mmfl.errors import ConfigError, InputError, StoreError, did_you_mean
from mmfl.experiment import ModelDescription
from mmfl.models import MODELS, Model
from mmfl.runs.checkpoints import CheckpointStore
from mmfl.runs.environment import sessions
from mmfl.runs.failures import turns_by_task
from mmfl.runs.resume import find_mismatch
from mmfl.runs.store import RunStore
from mmfl.system.files import is_folder, read_file
from mmfl.system.user_code import warn_user

if TYPE_CHECKING:
    from mmfl.train import TrainedModel

__all__ = ["load_model", "read_descriptions", "read_model"]

Weights = Mapping[str, Any]

HEADER = "mmfl"
"""Where the description is in the header of a file of weights."""


@component
class _Given:
    """What builds a network."""

    model: Annotated[Model, MODELS]


def read_descriptions(store: RunStore) -> dict[str, ModelDescription]:
    """How tasks' models are built and used, for the tasks of which the run says it."""
    if not store.has("task", "description"):
        return {}
    where = f"the run in {str(store.folder)!r} is damaged: the description of task"
    found = store.rows("SELECT name, description FROM task WHERE description != ''")
    return {name: ModelDescription.from_json(text, f"{where} {name!r}") for name, text in found}


def read_model(
    folder: Path, task: str, *, network: Any = None, allow_imports: bool = False
) -> TrainedModel:
    """A task's model from a run directory; of a run that is not finished, with a warning.

    Args:
        folder: The run directory.
        task: The task's name.
        network: What builds the network; by default what the run says.
        allow_imports: Whether a network that the run names as ``module:Name`` may be imported.
    """
    with closing(RunStore.open(folder)) as store:
        description = _find_description(store, task)
        weights = _read_weights(store, task)
        _warn_untrained(store, task)
        code = sessions(store.environment())[-1].get("code")
    model = _find_network(description, network, allow_imports=allow_imports)
    if network is None:
        _warn_changed(description, code)
    from mmfl.train import build_model

    return build_model(model, description, weights)


def load_model(
    path: str | Path, *, network: Any = None, allow_imports: bool = False
) -> TrainedModel:
    """A model from the folder that ``mmfl export --model`` wrote, or from a run's file of weights.

    Args:
        path: The folder of a task, or a file that ends in .safetensors.
        network: What builds the network; by default what the file says.
        allow_imports: Whether a network that the file names as ``module:Name`` may be imported.
    """
    file = Path(path)
    file = file / "model.safetensors" if is_folder(file) else file
    where = f"the model in {str(file)!r}"
    try:
        content = read_file(file)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        weights = load(content)
        text = header["__metadata__"][HEADER]
    except OSError as error:
        raise StoreError(f"{where} cannot be read: {error.strerror}") from None
    except (SafetensorError, ValueError, TypeError, RecursionError):
        raise StoreError(f"{where} is not a valid safetensors file") from None
    except KeyError:
        raise StoreError(
            f"{where} does not say how it is used; only models that mmfl has written do"
        ) from None
    description = ModelDescription.from_json(text, f"{where}: its description")
    model = _find_network(description, network, allow_imports=allow_imports)
    from mmfl.train import build_model

    return build_model(model, description, weights)


def _find_description(store: RunStore, task: str) -> ModelDescription:
    names = [name for _, name, *_ in store.tasks()]
    if task not in names:
        raise InputError(
            f"the run in {str(store.folder)!r} has no task {task!r}; {did_you_mean(task, names)}"
        )
    known = read_descriptions(store)
    if task not in known:
        raise StoreError(
            f"the run in {str(store.folder)!r} does not say how the model of task {task!r} is used "
            "(it was written by an older version of mmfl, or trained by another engine); its "
            f"weights are in models/{task}.safetensors"
        )
    return known[task]


def _read_weights(store: RunStore, task: str) -> Weights:
    """A task's weights: the final ones, or else those of the newest checkpoint."""
    meta, name, folder = store.meta(), f"models/{task}.safetensors", store.folder
    if meta.get("status") == "finished":
        damage = store.file_damage(name)
        if damage:
            raise StoreError(f"the run in {str(folder)!r} is damaged: {damage}")
        try:
            return load(read_file(folder / name))
        except OSError as error:
            raise StoreError(f"cannot read {str(folder / name)!r}: {error.strerror}") from None
    checkpoints = CheckpointStore(folder / "checkpoints", keep=1)
    found = checkpoints.newest(fits=partial(find_mismatch, store)).state
    if found is None:
        raise StoreError(
            f"the run in {str(folder)!r} is not finished, and has no checkpoint whose weights "
            "could be used; resume it"
        )
    warn_user(
        f"the run in {str(folder)!r} is not finished: the model of task {task!r} is that of round "
        f"{found.round} of {meta.get('rounds', '?')}"
    )
    return found.params[task]


def _warn_untrained(store: RunStore, task: str) -> None:
    turns = turns_by_task(store)[task]
    if not turns.trained:
        warn_user(
            f"task {task!r} never trained ({turns.why}): its model has the weights it began with"
        )


def _warn_changed(description: ModelDescription, code: Any) -> None:
    """Say so if the user's module is not the one that the run was made with."""
    module, own, _ = description.model["kind"].partition(":")
    was = code.get(module) if own and isinstance(code, Mapping) else None
    if was and hash_module(module) not in ("", was):
        warn_user(f"module {module!r} has changed since the run: its network may be another one")


def _find_network(description: ModelDescription, network: Any, *, allow_imports: bool) -> Model:
    """What builds the network."""
    task, kind = description.task, description.model["kind"]
    with imports_allowed(allow_imports):
        try:
            return parse(_Given, {"model": description.model if network is None else network}).model
        except ConfigError as error:
            if network is None and is_in_memory(kind):
                raise InputError(
                    f"the network of task {task!r} was passed in memory, and this program does not "
                    "have it; pass it with network="
                ) from None
            raise InputError(f"the network of task {task!r}: {error}") from error.__cause__
