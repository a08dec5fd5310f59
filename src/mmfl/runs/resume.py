"""Going on with a run: what is in its directory, whether it is this experiment's, and from where.

A run goes on from the newest checkpoint that is whole and that the run's own rounds agree with.
Rounds after it are forgotten and done again, to the same bits: a round depends on nothing but the
experiment and the state before it.
"""

from __future__ import annotations

import shutil
import tomllib
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.checkpoints import Vault, write_whole
from mmfl.config import dump
from mmfl.errors import ConfigError, MmflWarning, StoreError
from mmfl.experiment import Experiment
from mmfl.runs.awards import Hiring, hiring
from mmfl.runs.claim import Claim
from mmfl.runs.environment import as_json, environment_now
from mmfl.runs.result import status_of
from mmfl.runs.store import BEGINNING, FORMAT, RunStore
from mmfl.sentences import short
from mmfl.state import State

if TYPE_CHECKING:
    from mmfl.engines.base import Engine

__all__ = ["Begun", "begun", "changes", "clear_beginning", "unsigned"]


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that was begun before; this process alone may write into its directory.

    Attributes:
        folder: Its directory.
        experiment: What it is to do now, resolved.
        hiring: Its auction, if it had one.
        finished: Whether nothing is left to do.
    """

    folder: Path
    experiment: Experiment
    hiring: Hiring | None
    finished: bool
    _claim: Claim

    def close(self) -> None:
        """Let others have the directory."""
        self._claim.close()

    def go_on(self, engine: Engine, first: State) -> tuple[RunStore, State]:
        """The directory, opened for writing, and the state to whose round it went back.

        Args:
            engine: That will train.
            first: The state before round one, if there is nothing better.
        """
        with ExitStack() as stack:
            store = stack.enter_context(closing(RunStore.reopen(self.folder, self._claim)))
            self._refuse_other_data(store.data(), engine.data() | self.experiment.files())
            vault = Vault(self.folder / "checkpoints", keep=self.experiment.checkpoints.keep)
            noted = store.meta().get("checkpoint", "")
            found = vault.newest(noted=noted, fits=partial(_complaint, store))
            state = first if found.state is None else found.state
            for sentence in found.damaged.values():
                where = f"the one of round {state.round}" if state.round else "the beginning"
                _warn(f"{sentence}, so the run goes on from {where}")
            if state.lineage != first.lineage:
                raise StoreError(
                    f"checkpoint {found.name!r} in {str(self.folder)!r} was written for another "
                    "experiment, or by another version of mmfl"
                )
            store.rewind(state.round)
            store.note(checkpoint=found.name)
            vault.forget_after(state.round)
            self._rewrite(store, state.round)
            stack.pop_all()
        return store, state

    def _refuse_other_data(self, was: Mapping[str, str], now: Mapping[str, str]) -> None:
        other = sorted(name for name, digest in was.items() if now.get(name, digest) != digest)
        if other:
            raise StoreError(
                f"{str(self.folder)!r} was begun with other data for {', '.join(other)}, so it "
                "cannot go on; choose another folder (--out)"
            )

    def _rewrite(self, store: RunStore, after: int) -> None:
        """Say that it goes on, with what, and for how long."""
        folder, told, now = self.folder, store.environment(), environment_now()
        for name, version in now["versions"].items():
            was = told.get("versions", {}).get(name, version)
            if was != version:
                _warn(
                    f"{str(folder)!r} was begun with {name} {was} and goes on with {version}: it "
                    "may end with other bits than an uninterrupted run"
                )
        resumed = [*told.get("resumed", []), {"after_round": after, **now}]
        try:
            write_whole(folder / "environment.json", as_json({**told, "resumed": resumed}))
            write_whole(folder / "experiment.toml", self.experiment.to_toml().encode())
        except OSError as error:
            raise StoreError(f"cannot write into {str(folder)!r}: {error.strerror}") from None
        store.sign(self.experiment.rounds)


def _complaint(store: RunStore, state: State) -> str | None:
    """Why a state is not one of a run's, whose last rounds may have been lost in a power cut."""
    told = store.rows("SELECT chain FROM round WHERE round = ?", state.round)
    count = store.rows("SELECT count(*) FROM round WHERE round <= ?", state.round)
    if not told or count[0][0] != state.round:
        return "is of a round that the run's database does not have"
    if told[0][0] != state.chain:
        return "has another history than the run's database"
    return None


def begun(folder: Path, experiment: Experiment) -> Begun | None:
    """The run that a folder holds, if it can go on as this experiment; None if it holds nothing.

    What is refused is left as it is: a folder that holds something else, a run that another process
    is busy with, a run of another experiment (all that differs is named; rounds may grow).
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not folder.is_dir():
        raise StoreError(f"{str(folder)!r} is a file; choose a folder (--out) for the run")
    claim = Claim(folder)
    try:
        clear_beginning(folder, keep=True)
        if not any(folder.iterdir()):
            claim.close()
            return None
        with closing(RunStore.open(folder)) as store:
            meta, had = store.meta(), hiring(store)
        if meta.get("format") != FORMAT:
            raise StoreError(
                f"{str(folder)!r} was begun by another version of mmfl, whose runs this one can "
                "read but not continue; choose another folder (--out)"
            )
        experiment = experiment.resolved()
        _refuse_changes(folder, _stored(folder / "experiment.toml"), experiment)
        if status_of(meta) == "running" and claim.weak:
            raise StoreError(f"{str(folder)!r} is being run by process {meta.get('pid')}")
        done = meta.get("status") == "finished" and meta.get("rounds") == str(experiment.rounds)
        return Begun(folder, experiment, had, done, claim)
    except BaseException:
        claim.close()
        raise


def unsigned(folder: Path) -> bool:
    """Whether this is a run's directory in which no process has put its number yet."""
    if not folder.is_dir() or not {path.name for path in folder.iterdir()} <= {*BEGINNING}:
        return False
    try:
        with closing(RunStore.open(folder)) as store:
            return "pid" not in store.meta()
    except StoreError:
        return True


def clear_beginning(folder: Path, *, keep: bool = False) -> None:
    """Remove a run of ours that came to its end in its first moment; or empty its folder."""
    if not unsigned(folder):
        return
    if not keep:
        shutil.rmtree(folder)
        return
    for path in folder.iterdir():
        path.unlink()


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """From key to its two values, where two experiments' tables differ; None = not set."""
    old, new = _flat(was), _flat(now)
    keys = [*old, *(key for key in new if key not in old)]
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}


def _refuse_changes(folder: Path, stored: Mapping[str, Any], experiment: Experiment) -> None:
    found = changes(stored, dump(experiment))
    for key in list(found):
        if key.partition(".")[0] in ("engine", "checkpoints"):
            del found[key]
    was, now = found.get("rounds", (0, 0))
    if isinstance(was, int) and was < now and not experiment.plans_ahead:
        found.pop("rounds", None)
    if not found:
        return
    listed = ", ".join(f"{key} {_was(old)} and is {_is(new)}" for key, (old, new) in found.items())
    may = "may not grow: this allocator plans by them" if experiment.plans_ahead else "may grow"
    raise StoreError(
        f"{str(folder)!r} cannot go on with a changed experiment: {listed} (rounds {may})"
        "; choose another folder (--out)"
    )


def _was(value: Any) -> str:
    return "was not set" if value is None else f"was {short(value)}"


def _is(value: Any) -> str:
    return "not set" if value is None else short(value)


def _stored(path: Path) -> dict[str, Any]:
    """An experiment's tables as they are on disk, with the defaults of today."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {str(path)!r}: {error}") from None
    with suppress(ConfigError):  # it may name classes, which are not imported for a comparison
        table = dump(Experiment.from_toml(text).resolved())
    return table


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys; tasks go by name."""
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        value = {str(item.get("name", number)): item for number, item in enumerate(value)}
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= _flat(inner, f"{path}.{key}" if path else str(key))
    return found


def _warn(sentence: str) -> None:
    warnings.warn(sentence, MmflWarning, stacklevel=4)
