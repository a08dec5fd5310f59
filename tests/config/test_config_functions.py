"""A user's plain functions as data sets, losses, metrics and partitions."""

from __future__ import annotations

import copy
import datetime
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from mmfl import Experiment
from mmfl.config import imports_allowed, is_in_memory
from mmfl.data import DATASETS, PARTITIONS, Examples
from mmfl.errors import ConfigError, DataError
from mmfl.experiment import Task
from mmfl.objectives import LOSSES, METRICS
from mmfl.rng import stream
from support.helpers import one_line

pytestmark = pytest.mark.usefixtures("imports")

FAMILIES = {"dataset": DATASETS, "loss": LOSSES, "metric": METRICS, "partition": PARTITIONS}
OWN = """
import numpy as np

def function(*args, **options):
    return args, options

class Outer:
    @staticmethod
    def still(*args): return args

    @classmethod
    def of_class(cls, *args): return args

    def bound(self, *args): return args

def maker():
    def inner(): ...
    return inner

unnamed = lambda *args: args
number = 3
thing = Outer()
"""
PATH = "own_functions_of_a_user"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / f"{PATH}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop(PATH, None)
    yield __import__(PATH)
    sys.modules.pop(PATH, None)


@pytest.fixture(params=FAMILIES)
def place(request) -> str:
    return request.param


def task(place: str, value: object) -> Task:
    return Task(**{"name": "a", "dataset": "x", place: value})


def refused(place: str, value: object) -> str:
    return one_line(ConfigError, lambda: task(place, value))


def test_the_function_itself_its_path_and_a_table_are_the_same(own, place):
    path = f"{PATH}:function"
    made = [task(place, value) for value in (own.function, path, {"kind": path})]
    assert made[0] == made[1] == made[2]
    member = getattr(made[0], place)
    family = FAMILIES[place]
    assert family.kind_of(member) == path
    assert family.dump(member) == {"kind": path}
    assert family.parse(member) is member
    assert pickle.loads(pickle.dumps(member)) == copy.deepcopy(member) == member
    assert hash(member) == hash(copy.deepcopy(member))


def test_options_are_keywords_and_survive_a_file(own, place):
    options = {"a": 1, "b": [0.5, "x"], "c": {"d": True}}
    member = FAMILIES[place].parse({"kind": f"{PATH}:function", **options})
    assert member.function(7) == ((7,), options)
    tables = {"rounds": 1, "clients": {"count": 2}}
    whole = {
        **tables,
        "tasks": [{"name": "a", "dataset": "x", place: {"kind": f"{PATH}:function"}}],
    }
    whole["tasks"][0][place] |= options
    made = Experiment.from_dict(whole, allow_imports=True)
    again = Experiment.from_toml(made.to_toml(), allow_imports=True)
    assert again == made
    assert again.digest == made.digest
    assert getattr(again.tasks[0], place) == member


def test_a_tuple_in_python_is_a_list_in_the_file(own):
    tuples = METRICS.parse({"kind": f"{PATH}:function", "bounds": (0, 1)})
    assert METRICS.dump(tuples)["bounds"] == [0, 1]
    assert tuples.bounds == (0.0, 1.0)


def test_other_options_are_another_member(own, place):
    one, other = (FAMILIES[place].parse({"kind": f"{PATH}:function", "a": a}) for a in (1, 2))
    assert one != other


@pytest.mark.parametrize("name", ["still", "of_class"])
def test_what_can_be_imported_again_may_be_given_as_it_is(own, place, name):
    function = getattr(own.Outer, name)
    member = getattr(task(place, function), place)
    assert member.function.path == f"{PATH}:Outer.{name}"
    assert member.function(1, 2) == (1, 2)


@pytest.mark.parametrize("which", ["lambda", "inner", "bound", "shadowed"])
def test_what_cannot_be_imported_again_is_kept_in_memory(own, place, which):
    shadowed, own.function = own.function, lambda: None
    functions = {"lambda": own.unnamed, "inner": own.maker(), "bound": own.thing.bound}
    function = functions.get(which, shadowed)
    member = getattr(task(place, function), place)
    assert is_in_memory(FAMILIES[place].kind_of(member))
    assert member.function.find() == function
    with imports_allowed(False):  # the name is no permission to import anything
        assert FAMILIES[place].parse(FAMILIES[place].dump(member)) == member


@pytest.mark.parametrize(
    "value", [object(), 3, "own_functions_of_a_user:number", f"{PATH}:missing"]
)
def test_what_is_no_function_is_one_sentence(own, place, value):
    if place == "dataset" and value == 3:
        value = [3]
    assert refused(place, value).startswith(f"Task: {place}")


@pytest.mark.parametrize(
    "value",
    [datetime.date(2020, 1, 1), np.arange(3), {1, 2}, b"bytes"],
    ids=lambda v: type(v).__name__,
)
def test_options_that_no_file_could_hold_are_one_sentence(own, place, value):
    message = refused(place, {"kind": f"{PATH}:function", "since": value})
    assert f"{place}.since must consist of text, numbers, lists and tables, got" in message


def test_without_permission_a_path_is_refused_and_nothing_is_imported(own, place):
    del sys.modules[PATH]
    with imports_allowed(False):
        assert "would import code; pass allow_imports=True" in refused(place, f"{PATH}:function")
    assert PATH not in sys.modules
    with imports_allowed(False):  # whoever has the function has imported it
        assert task(place, one_line)


def test_other_families_take_no_functions(own):
    assert "must be a dataclass" in refused("normalize", f"{PATH}:function")
    assert "must be a dataclass" in refused("normalize", own.function)


def test_a_message_about_a_model_says_what_a_model_is():
    class Net:  # not an nn.Module
        def __call__(self):
            return None

    for value in (Net, Net()):
        message = refused("model", value)
        assert "must be a dataclass, so that its settings can be stored with the run" in message
        assert message.endswith(
            "; a model is an nn.Module, a class of them, or a function build(shape, outputs) "
            "(docs/how-to/write-a-model.md)"
        )


# What a function returns as data


def returns(what):
    if what == "tables":
        x, y = [[0.0], [1.0]], [0, 1]
        return {"x_train": x, "y_train": y, "x_test": x, "y_test": y, "classes": 5}
    if what == "clients":
        pair = ([[0.0], [1.0]], [0, 1])
        return {"clients": [pair, pair], "x_test": pair[0], "y_test": pair[1]}
    if what == "arrays":
        return DATASETS.parse({"kind": "synthetic", "train": 4, "test": 2, "classes": 9}).load(None)
    return {"four": ([[0]], [0], [[0]], [0]), "three": ([[0]], [0], [[0]]), "none": None}[what]


def data(what):
    return DATASETS.parse({"kind": f"{__name__}:returns", "what": what}).load(None)


@pytest.mark.parametrize(
    ("what", "rows", "classes"),
    [("tables", 2, 5), ("clients", 4, 2), ("arrays", 4, 9), ("four", 1, 1)],
)
def test_data_may_be_a_table_pairs_arrays_or_four_arrays(what, rows, classes):
    found = data(what)
    assert (len(found.x_train), found.classes) == (rows, classes)
    assert (found.groups is not None) == (what == "clients")


@pytest.mark.parametrize("what", ["three", "none"])
def test_data_that_is_nothing_of_the_kind_is_one_sentence(what):
    message = one_line(DataError, lambda: data(what))
    assert "must be (x, y), (x_train, y_train, x_test, y_test), a dictionary of these, " in message


def test_a_partition_function_gets_the_examples_the_clients_and_a_stream():
    cut = PARTITIONS.parse({"kind": f"{__name__}:deal", "step": 2})
    shards = cut.split(Examples.of([0, 1, 2, 0]), 3, rng=stream(0, "partition"))
    assert [shards.shard(k).tolist() for k in range(3)] == [[0], [2], [1]]


def deal(examples, clients, rng, *, step):
    owners = np.arange(len(examples)) * step % clients
    owners[-1] = -1
    return owners
