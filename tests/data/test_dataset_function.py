"""Data sets that a function of the user's returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmfl.data import Arrays, Npz
from mmfl.errors import ConfigError, DataError, MmflWarning
from mmfl.experiment import DataCache, Experiment, Task
from support.helpers import one_line

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])


def rows(count: int = 6, how: str = "tuple") -> Any:
    x, y = X[:count], Y[:count]
    if how == "clients":
        return {
            "clients": [(x[:2], y[:2]), (x[:0], y[:0]), (x[2:], y[2:])],
            "x_test": X,
            "y_test": Y,
        }
    if how == "arrays":
        return Arrays(x.astype(np.float32), y, X.astype(np.float32), Y, 3)
    if how == "images":
        return np.ones((6, 3, 8, 9)), y, np.ones((6, 3, 8, 9)), y
    if how == "pair":
        return np.arange(40.0).reshape(20, 2), [0, 1] * 10
    if how == "frame":
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame({"age": np.arange(20), "y": [0, 1] * 10})
    if how == "raises":
        raise KeyError("column")
    return {"nothing": None, "tuple": (x, y, X, Y)}[how]


def experiment(dataset: Any) -> Experiment:
    table = {"rounds": 1, "clients": {"count": 3}, "tasks": [{"name": "a", "dataset": dataset}]}
    return Experiment.from_dict(table)


def loaded(dataset: Any) -> Arrays:
    return DataCache(None).arrays(experiment(dataset))["a"]


@pytest.mark.parametrize("how", ["tuple", "clients", "arrays"])
def test_all_ways_to_return_data_are_the_same_data(how):
    found = loaded({"kind": rows, "how": how})
    assert found.x_train.tolist() == X.tolist()
    assert found.y_train.tolist() == Y.tolist()
    assert found.classes == 3


def test_one_pair_per_client_makes_groups_and_a_client_may_have_nothing():
    groups = loaded({"kind": rows, "how": "clients"}).groups
    assert groups is not None
    assert groups.tolist() == [0, 0, 2, 2, 2, 2]


def test_a_function_may_stand_bare_or_with_its_keywords_and_is_written_down_by_its_path():
    assert len(loaded(rows).x_train) == 6
    made = experiment({"kind": rows, "count": 4})
    assert len(DataCache(None).arrays(made)["a"].x_train) == 4
    path = experiment({"kind": rows, "count": 4}).to_toml()
    assert f'kind = "{__name__}:rows"' in path
    assert Experiment.from_toml(path, allow_imports=True) == made


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nothing", f"data set '{__name__}:rows' must be (x, y), (x_train, y_train, x_test"),
        ("raises", "its data cannot be loaded: KeyError: 'column'"),
    ],
)
def test_a_function_that_returns_no_data_is_named(how, message):
    found = one_line(DataError, lambda: loaded({"kind": rows, "how": how}))
    assert found.startswith(f"task 'a': {message}")


def test_a_kind_that_is_no_function_is_refused():
    found = one_line(ConfigError, lambda: experiment({"kind": 3}))
    assert found.startswith("tasks[0].dataset.kind must be the name of a kind (known: ")


def test_what_is_not_an_npz_file_gets_a_hint(tmp_path: Path) -> None:
    hint = (
        'your own function ("module:function") can read any file (docs/how-to/use-your-own-data.md)'
    )
    path = tmp_path / "table.xls"
    message = one_line(DataError, lambda: Npz(str(path)).load(None))
    assert message.endswith(f"does not exist; {hint}")
    path.write_text("x,y\n1,2\n")
    message = one_line(DataError, lambda: Npz(str(path)).load(None))
    assert message.endswith(f"is not a valid npz file; {hint}")
    message = one_line(DataError, lambda: Npz(str(path.rename(tmp_path / "x.csv"))).load(None))
    assert message.endswith('is not a valid npz file; use kind = "csv"')
    message = one_line(ConfigError, lambda: Task("a", {"kind": "xls"}))
    assert message.startswith("Task: dataset.kind: unknown data set 'xls'; known: at_nodes, csv, ")
    assert message.endswith(f"; {hint}")


@pytest.mark.parametrize(("how", "shape"), [("pair", (16, 2)), ("frame", (16, 1))])
def test_a_function_may_return_what_data_takes(how, shape):
    with pytest.warns(MmflWarning, match=f"data set '{__name__}:rows': no test data was given"):
        found = loaded({"kind": rows, "how": how})
    assert found.x_train.shape == shape
    assert found.classes == 2


def test_images_with_channels_first_are_a_warning_and_stay_as_they_are(tmp_path: Path) -> None:
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez(tmp_path / "it.npz", **dict(zip(names, rows(how="images"), strict=True)))
    for dataset in ({"kind": rows, "how": "images"}, Npz(str(tmp_path / "it.npz"))):
        with pytest.warns(MmflWarning, match=r"shape \(3, 8, 9\) are taken as height x") as caught:
            found = loaded(dataset)
        assert found.x_train.shape == (6, 3, 8, 9)
        assert str(caught[0].message).endswith("return or store x.transpose(0, 2, 3, 1)")
