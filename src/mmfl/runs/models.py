"""Trained models, from a run directory or from a file, ready to use without the training data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
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

__all__ = [
    "HEADER",
    "StoredModel",
    "check_described",
    "find_network",
    "load_model",
    "read_descriptions",
    "read_model",
    "read_stored_model",
]

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


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A task's model as a run directory has it.

    Attributes:
        description: How it is built and used.
        weights: By tensor name.
        round: The round that they are of.
        remarks: Sentences about what is not as it should be.
        code: From the user's modules to the SHA-256 that their files had.
    """

    description: ModelDescription
    weights: Weights
    round: int
    remarks: tuple[str, ...]
    code: Mapping[str, Any]


def read_stored_model(folder: Path, task: str) -> StoredModel:
    """A task's model from a run directory: the final one, or that of the newest checkpoint.

    Args:
        folder: The run directory.
        task: The task's name.
    """
    with closing(RunStore.open(folder)) as store:
        description = _find_description(store, task)
        weights, after = _read_weights(store, task)
        remarks = []
        if store.meta().get("status") != "finished":
            remarks.append(
                f"the run in {str(folder)!r} is not finished: the model of task {task!r} is that "
                f"of round {after} of {store.meta().get('rounds', '?')}"
            )
        turns = turns_by_task(store)[task]
        if not turns.trained:
            remarks.append(
                f"task {task!r} never trained ({turns.why}): its model has the weights it began "
                "with"
            )
        code = sessions(store.environment())[-1].get("code")
    known = code if isinstance(code, Mapping) else {}
    return StoredModel(description, weights, after, tuple(remarks), known)


def check_described(folder: Path, task: str) -> None:
    """Raise `StoreError` if a run does not say how a task's model is used."""
    with closing(RunStore.open(folder)) as store:
        _find_description(store, task)


def read_model(
    folder: Path, task: str, *, network: Any = None, allow_imports: bool = False
) -> TrainedModel:
    """A task's model from a run directory; what is not as it should be is a warning.

    Args:
        folder: The run directory.
        task: The task's name.
        network: What builds the network; by default what the run says.
        allow_imports: Whether a network that the run names as ``module:Name`` may be imported.
    """
    stored = read_stored_model(folder, task)
    for remark in stored.remarks:
        warn_user(remark)
    model = find_network(stored.description, network, allow_imports=allow_imports)
    if network is None:
        _warn_changed(stored)
    from mmfl.train import build_model

    return build_model(model, stored.description, stored.weights)


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
    model = find_network(description, network, allow_imports=allow_imports)
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


def _read_weights(store: RunStore, task: str) -> tuple[Weights, int]:
    """A task's weights, and the round that they are of."""
    meta, name, folder = store.meta(), f"models/{task}.safetensors", store.folder
    if meta.get("status") == "finished":
        damage = store.file_damage(name)
        if damage:
            raise StoreError(f"the run in {str(folder)!r} is damaged: {damage}")
        try:
            return load(read_file(folder / name)), int(meta.get("rounds", "0"))
        except OSError as error:
            raise StoreError(f"cannot read {str(folder / name)!r}: {error.strerror}") from None
    checkpoints = CheckpointStore(folder / "checkpoints", keep=1)
    found = checkpoints.newest(fits=partial(find_mismatch, store)).state
    if found is None:
        raise StoreError(
            f"the run in {str(folder)!r} is not finished, and has no checkpoint whose weights "
            "could be used; resume it"
        )
    return found.params[task], found.round


def _warn_changed(stored: StoredModel) -> None:
    """Say so if the user's module is not the one that the run was made with."""
    module = stored.description.model["kind"].partition(":")[0]
    was = stored.code.get(module)
    if was and hash_module(module) not in ("", was):
        warn_user(f"module {module!r} has changed since the run: its network may be another one")


def find_network(description: ModelDescription, network: Any, *, allow_imports: bool) -> Model:
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
