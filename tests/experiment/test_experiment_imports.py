"""A configuration runs no code by surprise."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mmfl.config import Family
from mmfl.errors import ConfigError
from mmfl.experiment import Experiment, LocalOverride, LocalTraining, Task
from support.helpers import LEAST, refused

# Imports

OWN = """
from typing import ClassVar
from mmfl.config import component

@component
class Mine:
    size: int = 1
    mergeable: ClassVar[bool] = True
    def allocate(self): ...
    def aggregate(self): ...
    def open(self): ...
    def build(self): ...
    def split(self): ...
    def load(self): ...
    def difficulty(self): ...
    def rate(self): ...
    def mean(self): ...
    def on(self): ...
    def scaling(self): ...
    metric: ClassVar[str] = "loss"
    targets: ClassVar[str] = "any"
    better: ClassVar[str] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
"""

PLACES = [
    "aggregator",
    "allocator",
    "engine",
    "local.lr",
    "local.optimizer",
    "score",
    "tasks.a.dataset",
    "tasks.a.local.lr",
    "tasks.a.local.optimizer",
    "tasks.a.loss",
    "tasks.a.metric",
    "tasks.a.model",
    "tasks.a.normalize",
    "tasks.a.partition",
]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The import path of a class of a user's own, in a module that is not imported yet."""
    name = "own_parts_of_a_user"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield f"{name}:Mine"
    sys.modules.pop(name, None)


def at(experiment: Experiment, place: str) -> Any:
    here: Any = experiment
    for key in place.split("."):
        here = (
            next(t for t in here if t.name == key)
            if isinstance(here, tuple)
            else getattr(here, key)
        )
    return here


def test_the_places_are_all_there_are() -> None:
    holders = {
        Experiment: "",
        LocalTraining: "local.",
        LocalOverride: "tasks.a.local.",
        Task: "tasks.a.",
    }
    found = [
        prefix + name
        for holder, prefix in holders.items()
        for name, hint in typing.get_type_hints(holder, include_extras=True).items()
        if any(isinstance(part, Family) for part in getattr(hint, "__metadata__", ()))
    ]
    assert sorted(found) == PLACES


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bare", [True, False])
def test_imports_are_refused_unless_allowed(own: str, place: str, bare: bool) -> None:
    change = f"{place}={own}" if bare else f"{place}={{kind='{own}'}}"
    message = refused(change)
    assert place.replace("tasks.a", "tasks[0]") in message
    assert f"'{own}' would import code; pass allow_imports=True" in message
    assert own.partition(":")[0] not in sys.modules


@pytest.mark.parametrize("place", PLACES)
def test_imports_are_followed_when_allowed(own: str, place: str) -> None:
    changes = [f"{place}={{kind='{own}'}}", f"{place}.size=7"]
    experiment = Experiment.from_toml(LEAST, sets=changes, allow_imports=True)
    mine = at(experiment, place)
    assert type(mine).__name__ == "Mine"
    assert mine.size == 7
    assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment
    with pytest.raises(ConfigError, match="allow_imports=True"):
        Experiment.from_toml(experiment.to_toml())


@pytest.mark.parametrize("place", PLACES)
def test_a_bare_import_path_is_followed_when_allowed(own: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(LEAST)
    experiment = Experiment.load(path, sets=[f"{place}={own}"], allow_imports=True)
    assert at(experiment, place).size == 1
