"""What the documentation names exists, and its numbers are those of the code."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import mmfl
from mmfl.exchange import CHUNK
from mmfl.experiment.federation import PIECE

HOUSE = Path(__file__).parents[2]
MODULES = [
    m.name for m in pkgutil.walk_packages(mmfl.__path__, "mmfl.") if "__main__" not in m.name
]
PAGES = [*(HOUSE / "docs/explanation").glob("*.md"), HOUSE / "CONTRIBUTING.md"]
FOREIGN = "flower-faults.md"  # names files and functions of Flower
TEXT = (HOUSE / "docs/explanation/how-it-works.md").read_text()
NAMED = sorted(
    {
        name
        for path in PAGES
        if path.name != FOREIGN
        for name in re.findall(r"`([\w/.]+)`", path.read_text())
    }
)
MADE = {"run.py", "site/"}  # what a reader makes
FILES = [name for name in NAMED if name.endswith((".py", "/")) and name not in MADE]
ATTRIBUTES = [name for name in NAMED if re.fullmatch(r"[A-Za-z_]+(\.[A-Za-z_]+)+", name)]
KEYS = tuple(f"{field.name}." for field in dataclasses.fields(mmfl.Experiment))
WRITTEN = ("toml", "json", "sqlite", "npz", "py", "safetensors", "part")


def _exists(name: str) -> bool:
    """Whether this is an attribute of a module of ours, or of a class in one of them."""
    if name.startswith(KEYS):
        return True
    first, *rest = name.removeprefix("mmfl.").split(".")
    for module in map(importlib.import_module, MODULES):
        here = module if module.__name__.endswith(f".{first}") else getattr(module, first, None)
        for part in rest:
            fields = getattr(here, "__dataclass_fields__", {}) | getattr(
                here, "__annotations__", {}
            )
            here = getattr(here, part, fields.get(part))
        if here is not None:
            return True
    return name in MODULES


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_an_explanation_names_exists(name):
    assert any((folder / name).exists() for folder in (HOUSE, HOUSE / "src/mmfl"))


@pytest.mark.parametrize("name", [n for n in ATTRIBUTES if n.rsplit(".")[-1] not in WRITTEN])
def test_a_part_of_the_code_that_an_explanation_names_exists(name):
    assert _exists(name)


def test_what_the_makefile_imports_exists():
    text = (HOUSE / "Makefile").read_text()
    found = re.findall(r"from (mmfl[\w.]*) import (\w+)", text)
    assert found
    for module, name in found:
        assert hasattr(importlib.import_module(module), name)


def test_the_numbers_of_the_explanation_are_those_of_the_code():
    text = " ".join(TEXT.split())
    assert f"in pieces of {PIECE} batches" in text
    assert f"over chunks of {CHUNK} consecutive jobs" in text
