"""Objects that have no import path: their names, and how workers get them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from pydantic_core import PydanticCustomError

from mmfl.allocate import ALLOCATORS, Uniform
from mmfl.config import find_paths, is_in_memory, pack, unpack
from mmfl.config import in_memory as module
from mmfl.config.imports import get_import_path, import_object
from mmfl.config.in_memory import find_kept, keep

BUILD = """
WIDTH = 3
def build(shape, outputs):
    return [shape, outputs, WIDTH]
"""


def define(source: str, file: str = "<one>", name: str = "build"):
    names = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), names)
    return names[name]


def test_a_name_tells_content_apart_and_nothing_else():
    first = keep(define(BUILD))
    assert is_in_memory(first)
    assert first.startswith("in_memory:build-")
    assert keep(define(f"\n\n{BUILD}", "<elsewhere>")) == first
    for old, new in (
        ("outputs, WIDTH", "outputs"),
        ("WIDTH = 3", "WIDTH = 4"),
        ("shape,", "form,"),
    ):
        assert keep(define(BUILD.replace(old, new))) != first


def test_a_class_that_is_defined_again_has_the_same_name():
    source = "class Net:\n    width = 3\n    def build(self): return self.width\n"
    first = keep(define(source, name="Net"))
    assert keep(define(source, name="Net")) == first
    assert keep(define(source.replace("3", "4"), name="Net")) != first


ALIKE = """
import sys
import torch
from mmfl.config.in_memory import keep
KINDS = {"alpha", "beta", "gamma", "delta"}
def choose(shape, outputs):
    return shape in {"one", "two", "three"} and outputs in KINDS
class Net(torch.nn.Module):
    kinds = frozenset({"alpha", "beta", "gamma"})
    def __init__(self):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)
torch.manual_seed(0)
networks = Net(), torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.GRU(2, 2)
print(*(keep(thing) for thing in (choose, Net, *networks)))
"""


@pytest.mark.cold
def test_a_name_is_the_same_in_every_process_and_folder(tmp_path):
    found = set()
    for seed in "12":
        (tmp_path / seed).mkdir()
        (tmp_path / seed / "script.py").write_text(ALIKE)
        command = [sys.executable, str(tmp_path / seed / "script.py")]
        surroundings = os.environ | {"PYTHONHASHSEED": seed}
        found.add(subprocess.run(command, env=surroundings, capture_output=True).stdout)
    assert len(found) == 1
    assert len(found.pop().split()) == 5


def test_the_order_of_a_set_is_no_content():
    one, other = {"a", "b", "c"}, {"c", "b", "a"}
    assert keep(functools.partial(max, one)) == keep(functools.partial(max, other))
    assert keep(functools.partial(max, one)) != keep(functools.partial(max, one | {"d"}))


def test_of_a_tensor_values_type_and_layout_are_content():
    first = torch.arange(4.0).reshape(2, 2)
    names = {
        keep(functools.partial(max, tensor))
        for tensor in (
            *(first, first + 1, first.double(), first.T, first.reshape(4), first > 1),
            *(torch.nn.Parameter(first), torch.nn.Parameter(first, requires_grad=False)),
            *(first + 1j, (first + 1j).conj(), first.to_sparse()),
        )
    }
    assert len(names) == 11
    assert keep(functools.partial(max, first.clone())) in names


def test_of_a_network_the_weights_count_and_later_training_does_not():
    network = torch.nn.Linear(2, 1)
    path = keep(network)
    before = find_kept(path).weight.clone()
    with torch.no_grad():
        network.weight += 1.0
    assert torch.equal(find_kept(path).weight, before)
    assert keep(network) != path


@pytest.mark.parametrize(
    "function",
    [lambda x: x, functools.partial(max, 1), define(BUILD)],
    ids=["lambda", "partial", ""],
)
def test_what_cannot_be_imported_is_kept(function):
    path = get_import_path(function)
    assert is_in_memory(path)
    assert import_object(path) is function


def test_what_can_be_imported_is_named():
    assert get_import_path(functools.reduce) == "_functools:reduce"
    assert get_import_path(define) == f"{__name__}:define"


def test_workers_get_the_objects_that_are_named(monkeypatch):
    path = keep(define(BUILD))
    packed = pack([path])
    monkeypatch.setattr(module, "_kept", {})
    with pytest.raises(PydanticCustomError, match="'build' was passed in memory"):
        import_object(path)
    unpack(packed)
    assert import_object(path)(1, 2) == [1, 2, 3]


def test_all_names_in_a_table_are_found():
    one, other = keep(define(BUILD)), keep(lambda x: -x)
    table = {"a": {"kind": one}, "b": [{"kind": "mine:X"}, {"c": other}], "d": "in_memory:no"}
    assert find_paths(table) == {one, other}


def test_an_own_class_without_an_import_path_has_a_name_in_memory():
    @dataclass(frozen=True)
    class Mine(Uniform):
        pass

    kind = ALLOCATORS.kind_of(Mine())
    assert kind.startswith("in_memory:Mine-")
    assert ALLOCATORS.parse({"kind": kind}) == Mine()
