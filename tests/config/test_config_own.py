"""A user's own classes in a family."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import Context
from pathlib import Path

import pytest

from mmfl.config import (
    dump,
    imports_allowed,
    parse,
)
from mmfl.errors import ConfigError
from support.shapes import Floor, Tile, sentence, shape_error

pytestmark = pytest.mark.usefixtures("imports")

# A user's own classes

RULE = "must be a dataclass, so that its settings can be stored with the run"
OWN = """
from dataclasses import dataclass
from mmfl.config import component

@component
class Star:
    points: int = 5
    def area(self): return 1.0

@dataclass(frozen=True)
class Plain:
    points: int = 5
    def area(self): return 1.0

class Loose:
    def area(self): return 1.0

@component
class Flat:
    points: int = 5

class Outer:
    @component
    class Inner:
        def area(self): return 1.0

def function(): ...
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of a user's own, not imported yet."""
    name = "own_shapes_of_a_user"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / f"{name}_broken.py").write_text("raise ImportError('two\\nlines')")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", ["Star", "Plain", "Outer.Inner"])
@pytest.mark.parametrize("bare", [True, False])
def test_an_import_path_is_followed_where_allowed(own: str, kind: str, bare: bool) -> None:
    path = f"{own}:{kind}"
    made = parse(Tile, {"shape": path if bare else {"kind": path}})
    assert f"{type(made.shape).__module__}:{type(made.shape).__qualname__}" == path
    assert parse(Tile, dump(made)) == made


def test_nothing_is_imported_unless_somebody_allows_it(own: str) -> None:
    path = f"{own}:Star"

    def refusals() -> list[str]:  # in a context of its own, where nobody has allowed anything
        return [
            sentence(lambda: parse(Tile, {"shape": path})),
            sentence(lambda: parse(Tile, {"shape": {"kind": path}})),
            sentence(lambda: Tile(path)),
            sentence(lambda: Tile(shape={"kind": path})),
            sentence(lambda: Floor(tiles=({"shape": path},))),
        ]

    for message in Context().run(refusals):
        assert f"'{path}' would import code; pass allow_imports=True" in message
    assert own not in sys.modules


@pytest.mark.parametrize("family", ["shape", "solid"])
def test_an_import_path_is_refused_where_forbidden(own: str, family: str) -> None:
    cls = Tile if family == "shape" else Floor
    with imports_allowed(False):
        message = sentence(lambda: parse(cls, {family: f"{own}:Star"}))
    assert message.startswith(f"{family}.kind: '{own}:Star' would import code")
    assert "allow_imports=True" in message
    assert own not in sys.modules


def test_the_permission_ends_with_its_block(own: str) -> None:
    with imports_allowed(False):
        with imports_allowed(True):
            parse(Tile, {"shape": f"{own}:Star"})
        with pytest.raises(ConfigError):
            parse(Tile, {"shape": f"{own}:Star"})
    with pytest.raises(ConfigError), imports_allowed(False):
        parse(Tile, {"shape": f"{own}:Star"})
    assert parse(Tile, {"shape": f"{own}:Star"}).shape.points == 5


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{own}:function", "'{own}:function' must be a dataclass"),
        ("{own}:Nothing", "cannot import '{own}:Nothing': AttributeError"),
        ("{own}_missing:X", "cannot import '{own}_missing:X': ModuleNotFoundError"),
        (":X", "cannot import ':X'"),
        ("{own}:", "cannot import '{own}:'"),
        ("{own}:Flat", "'{own}:Flat' is not a valid shape: it has no 'area'"),
    ],
)
def test_an_import_path_must_lead_to_a_member(own: str, path: str, message: str) -> None:
    found = shape_error(path.format(own=own))
    assert found.startswith("shape.kind: ")
    assert message.format(own=own) in found


def test_a_member_must_be_a_dataclass(own: str) -> None:
    assert shape_error({"kind": f"{own}:Loose"}) == f"shape.kind: '{own}:Loose' {RULE}"


def test_a_members_object_must_be_a_dataclass() -> None:
    class Loose:
        def area(self) -> float:
            return 1.0

    assert shape_error(Loose()) == f"shape {RULE}, got Loose"
    assert shape_error(Loose) == f"shape {RULE}, got Loose"


@pytest.mark.parametrize("kind", ["Star", "Plain"])
def test_a_users_own_class_refuses_unknown_keys_too(own: str, kind: str) -> None:
    message = shape_error({"kind": f"{own}:{kind}", "pionts": 6})
    assert message == "shape.pionts is not a known key; did you mean 'points'?"


def test_a_failing_import_is_one_line(own: str) -> None:
    assert "ImportError: two" in shape_error(f"{own}_broken:X")


STRANGE = """
import datetime, enum, pathlib
from dataclasses import dataclass, field
from typing import Any
import numpy as np

class Color(str, enum.Enum):
    RED = "red"

LOOP = []
LOOP.append(LOOP)
VALUES = {
    "path": pathlib.Path("a"),
    "enum": Color.RED,
    "date": datetime.date(2020, 1, 1),
    "array": np.zeros(2),
    "function": len,
    "large": 10**5000,
    "text": "\\udcff",
    "keys": {1: 2, "a": 3},
    "loop": LOOP,
}

@dataclass(frozen=True)
class Strange:
    which: str
    value: Any = None
    def __post_init__(self):
        object.__setattr__(self, "value", VALUES.get(self.which))
    def area(self): return 1.0

@dataclass(frozen=True)
class Doubled:
    width: int = 1
    def __post_init__(self):
        object.__setattr__(self, "width", self.width * 2)
    def area(self): return 1.0

@dataclass(frozen=True)
class Unknown:
    width: float = float("nan")
    def area(self): return 1.0
"""


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "strange_shapes_of_a_user"
    (tmp_path / f"{name}.py").write_text(STRANGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("which", "given"),
    [
        ("path", "a PosixPath"),
        ("enum", "<Color.RED: 'red'>"),
        ("date", "a date"),
        ("array", "a ndarray"),
        ("function", "a builtin_function_or_method"),
        ("large", "a whole number with too many digits"),
        ("text", "'\\udcff', which is not UTF-8 text"),
        ("keys", "a table with keys that are not text"),
        ("loop", "lists that are nested more than 50 levels deep, or contain themselves"),
    ],
)
def test_a_setting_that_toml_cannot_hold_is_one_sentence(strange, which, given):
    with imports_allowed(True):
        said = shape_error({"kind": f"{strange}:Strange", "which": which})
    rule = "must be text, a number, true or false, or a list or table of these"
    assert said == f"shape.value {rule}, got {given} (a setting of '{strange}:Strange')"


def test_a_component_that_changes_its_own_settings_is_one_sentence(strange):
    with imports_allowed(True):
        said = shape_error(f"{strange}:Doubled")
        parse(Tile, {"shape": f"{strange}:Unknown"})
    assert said == (
        f"shape.width must not be changed by __post_init__ of '{strange}:Doubled': 2 becomes 4 "
        "when the component is made again from its settings"
    )
