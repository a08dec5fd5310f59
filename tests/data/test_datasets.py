"""Data sets: npz files and their rules, the data folder, synthetic clouds."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import Arrays, Named, Npz, Synthetic, data_folder, default_folder
from mmfl.errors import DataError
from mmfl.experiment import Clients, DataCache, Experiment, Task
from support.helpers import one_line


def grey(**changes: Any) -> dict[str, Any]:
    """A good data set of 6 + 4 grey images in 3 classes, with changes; None leaves a part out."""
    parts = {
        "x_train": np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.arange(4 * 4 * 5, dtype=np.uint8).reshape(4, 4, 5),
        "y_test": np.array([0, 1, 0, 1]),
    }
    return {key: value for key, value in (parts | changes).items() if value is not None}


def write(path: Path, **changes: Any) -> Npz:
    np.savez(path, **grey(**changes))
    return Npz(str(path))


def refused(act: Callable[[], object]) -> str:
    """The one line that says what is wrong with the data."""
    return one_line(DataError, act)


# Reading npz files


def test_grey_images(tmp_path: Path) -> None:
    arrays = write(tmp_path / "a.npz").load(None)
    for part, values in grey().items():
        np.testing.assert_array_equal(getattr(arrays, part), values)
    assert arrays.x_train.dtype == np.uint8
    assert arrays.y_train.dtype == arrays.y_test.dtype == np.int64
    assert arrays.classes == 3
    assert arrays.shape == (1, 4, 5)


def test_colour_images(tmp_path: Path) -> None:
    colour = {
        f"x_{part}": np.zeros((n, 4, 5, 3), np.uint8) for part, n in [("train", 6), ("test", 4)]
    }
    assert write(tmp_path / "a.npz", **colour).load(None).shape == (3, 4, 5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_tables_of_floating_point(tmp_path: Path, dtype: type) -> None:
    tables = {"x_train": np.ones((6, 7), dtype), "x_test": np.zeros((4, 7), dtype)}
    arrays = write(tmp_path / "a.npz", **tables).load(None)
    assert arrays.shape == (7,)
    np.testing.assert_array_equal(arrays.x_train, tables["x_train"])


@pytest.mark.parametrize(("names", "classes"), [(["a", "b", "c", "d", "e"], 5), (None, 3)])
def test_classes_counts_names_and_labels(
    tmp_path: Path, names: list[str] | None, classes: int
) -> None:
    given_names = None if names is None else np.array(names)
    assert write(tmp_path / "a.npz", classes=given_names).load(None).classes == classes


def test_a_class_may_occur_in_the_test_split_only(tmp_path: Path) -> None:
    assert write(tmp_path / "a.npz", y_test=np.array([0, 1, 9, 0])).load(None).classes == 10


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64])
def test_labels_of_any_whole_type(tmp_path: Path, dtype: type) -> None:
    arrays = write(tmp_path / "a.npz", y_train=np.array([0, 1, 2, 0, 1, 2], dtype)).load(None)
    assert arrays.y_train.dtype == np.int64
    assert arrays.y_train.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"x_train": np.zeros((6, 4, 5), complex)},
            "x_train must be bytes, real or whole numbers, got complex128",
        ),
        ({"x_test": np.array([["a"]] * 4)}, "x_test must be bytes, real or whole numbers, got <U1"),
        (
            {"x_train": np.zeros(6)},
            "N x D x H x W x C, got shape (6,)",
        ),
        ({"x_test": np.zeros((4, 1, 1, 1, 1, 1))}, "x_test must be N x features, N x H x W"),
        (
            {"x_train": np.float32(1)},
            "N x D x H x W x C, got shape ()",
        ),
        (
            {"y_train": np.zeros(6)},
            "y_train and y_test must both be class numbers or both real numbers, got float64",
        ),
        (
            {"y_train": np.zeros((6, 1), int)},
            "y_train and y_test must have examples of the same shape, got (1,) and ()",
        ),
        (
            {"y_test": np.zeros(4, complex)},
            "y_test must be integers (classes) or real numbers, got complex128",
        ),
        (
            {"y_train": np.zeros(5, int)},
            "x_train and y_train must have the same length, at least 1, got 6 and 5",
        ),
        (
            {"x_test": np.zeros((0, 4, 5)), "y_test": np.zeros(0, int)},
            "x_test and y_test must have the same length, at least 1, got 0 and 0",
        ),
        (
            {"y_train": np.array([0, 1, -2, 0, 1, 2])},
            "y_train must be class numbers from 0 to 1048575, got -2",
        ),
        (
            {"x_train": np.full((6, 4, 5), np.nan)},
            "x_train must contain only finite float32 values; row 0 has nan",
        ),
        (
            {"x_test": np.full((4, 4, 5), -np.inf)},
            "x_test must contain only finite float32 values; row 0 has -inf",
        ),
        (
            {"x_test": np.zeros((4, 4, 6), np.uint8)},
            "x_train and x_test must have examples of the same shape",
        ),
        (
            {"x_test": np.zeros((4, 20), np.uint8)},
            "x_train and x_test must have examples of the same shape",
        ),
        ({"x_train": np.array([{}] * 6, object)}, "cannot be read: "),
        ({"y_test": np.array([None] * 4, object)}, "cannot be read: "),
        ({"classes": np.array(["a", None], object)}, "cannot be read: "),
        ({"x_train": None}, "has no array 'x_train'"),
        ({"y_train": None, "y_test": None}, "has no array 'y_train'"),
        ({"y_test": None}, "has no array 'y_test'"),
    ],
)
def test_a_broken_rule_is_one_sentence(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    path = tmp_path / "a.npz"
    dataset = write(path, **changes)
    message = refused(lambda: dataset.load(None))
    assert message.startswith(f"data set {str(path)!r}")
    assert rule in message


def members(content: bytes) -> bytes:
    """A zip file with the four names, all of this content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for part in grey():
            made.writestr(f"{part}.npy", content)
    return file.getvalue()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def halved() -> bytes:
    file = io.BytesIO()
    np.savez(file, **grey())
    return file.getvalue()[: len(file.getvalue()) // 2]


@pytest.mark.parametrize(
    "content",
    [b"", b"hello world", npy(), halved(), members(b""), members(b"garbage"), members(npy()[:20])],
    ids=["empty", "text", "npy", "half", "empty members", "garbage members", "half members"],
)
def test_a_file_that_is_no_npz_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    assert refused(lambda: Npz(str(path)).load(None)).startswith(f"data set {str(path)!r}")


def test_a_damaged_npz_never_ends_in_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    noise = np.random.default_rng(0).integers(9, size=(6, 40, 40), dtype=np.uint8)
    np.savez_compressed(path, **grey(x_train=noise, x_test=noise[:4]))
    whole = path.read_bytes()
    surprises = set()
    for place in range(30, len(whole), 23):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            Npz(str(path)).load(None)
        except DataError:
            pass
        except Exception as error:
            surprises.add(f"{type(error).__module__}.{type(error).__name__}")
    assert surprises == set()


# The data folder


def test_a_path_is_relative_to_the_data_folder_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.npz", y_test=np.array([7, 0, 0, 0]))
    write(tmp_path / "a.npz")
    assert Npz("a.npz").load(tmp_path / "data").classes == 8
    assert Npz("a.npz").load(None).classes == 3
    assert Npz(str(tmp_path / "a.npz")).load(tmp_path / "data").classes == 3


@pytest.mark.parametrize("name", ["missing.npz", ".", "x" * 300])
def test_a_path_without_a_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    assert refused(lambda: Npz(name).load(None)).startswith(f"data set {name[:9]!r}"[:-1])


def test_a_name_is_found_where_data_dir_or_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, top in [("one", 5), ("two", 6)]:
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "letters.npz", y_test=np.array([top, 0, 0, 0]))
    assert Named("letters").load(tmp_path / "one").classes == 6
    monkeypatch.setenv("MMFL_DATA", str(tmp_path / "two"))
    assert Named("letters").load(None).classes == 7
    assert Named("letters").load(tmp_path / "one").classes == 6
    assert data_folder(None) == tmp_path / "two"


def test_without_a_data_folder_names_are_looked_up_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMFL_DATA", "")
    assert data_folder(None) is None
    assert default_folder() == tmp_path / "cache" / "mmfl"
    default_folder().mkdir(parents=True)
    write(default_folder() / "mine.npz")
    assert Named("mine").load(None).classes == 3
    message = refused(lambda: Named("mimes").load(None))
    assert "did you mean 'mine'? (set data_dir or MMFL_DATA if it is elsewhere)" in message
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "mmfl"


def test_a_file_in_the_data_folder_comes_before_the_embedded_set(tmp_path: Path) -> None:
    assert Named("letters").load(tmp_path).classes == 26
    write(tmp_path / "letters.npz")
    assert Named("letters").load(tmp_path).classes == 3


def test_a_set_that_can_be_fetched_says_how(tmp_path: Path) -> None:
    message = refused(lambda: Named("mnist").load(None))
    assert message == (
        f"data set 'mnist': {str(default_folder())!r} has no mnist.npz; get it with "
        "`mmfl data fetch mnist`, or use 'mnist_small', a subset that comes with mmfl"
    )
    there = tmp_path / "my data"
    there.mkdir()
    message = refused(lambda: Named("cifar10").load(there))
    assert message.endswith(f"get it with `mmfl data fetch cifar10 --data-dir '{there}'`")


def test_a_missing_folder_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    rule = (
        f"the data folder {str(gone)!r} does not exist (it was set by %s); name another with "
        "data_dir or MMFL_DATA"
    )
    assert refused(lambda: data_folder(gone)) == rule % "data_dir"
    assert refused(lambda: Npz("a.npz").load(gone)) == rule % "data_dir"
    monkeypatch.setenv("MMFL_DATA", str(gone))
    assert refused(lambda: Named("a").load(None)) == rule % "MMFL_DATA"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lettres", "did you mean 'letters'?"),
        (
            "zzz",
            "known: cifar10, digits, emnist, fashion_mnist, fashion_mnist_small, letters, mnist",
        ),
        ("x" * 300, "known"),
    ],
)
def test_a_name_without_a_file_gets_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    for known in ["letters", "digits"]:
        write(tmp_path / f"{known}.npz")
    (tmp_path / "notes.txt").write_text("no data")
    message = refused(lambda: Named(name).load(tmp_path))
    assert f"{name!r}" in message
    assert hint in message


# Synthetic clouds

clouds = st.builds(
    Synthetic,
    classes=st.integers(2, 6),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    train=st.integers(1, 50),
    test=st.integers(1, 20),
    noise=st.floats(0, 10),
    seed=st.integers(0, 2**40),
)


@given(clouds)
def test_synthetic_data_has_the_asked_shape_and_is_always_the_same(cloud: Synthetic) -> None:
    arrays, again = cloud.load(None), cloud.load(Path("nowhere"))
    assert arrays.x_train.shape == (cloud.train, *cloud.shape)
    assert arrays.x_test.shape == (cloud.test, *cloud.shape)
    assert arrays.y_train.shape == (cloud.train,)
    assert arrays.y_test.shape == (cloud.test,)
    assert arrays.classes == cloud.classes
    assert arrays.x_train.dtype == np.float32
    for part in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(arrays, part), getattr(again, part))
    for y in (arrays.y_train, arrays.y_test):
        assert y.min() >= 0
        assert y.max() < cloud.classes


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_other_seeds_give_other_data(one: int, other: int) -> None:
    same = np.array_equal(
        Synthetic(seed=one).load(None).x_test, Synthetic(seed=other).load(None).x_test
    )
    assert same is (one == other)


def test_without_noise_a_class_is_one_point_and_the_splits_share_it() -> None:
    arrays = Synthetic(classes=3, noise=0.0, train=60, test=60).load(None)
    for label in range(3):
        train = arrays.x_train[arrays.y_train == label]
        test = arrays.x_test[arrays.y_test == label]
        assert len(np.unique(np.concatenate([train, test]), axis=0)) == 1
    assert len(np.unique(arrays.x_train, axis=0)) == 3


# What a model sees


@pytest.mark.parametrize(
    ("layout", "shape"), [((7,), (7,)), ((4, 5), (1, 4, 5)), ((4, 5, 3), (3, 4, 5))]
)
def test_an_examples_shape_has_channels_first(
    layout: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    x, y = np.zeros((2, *layout), np.uint8), np.zeros(2, np.int64)
    assert Arrays(x, y, x, y, 1).shape == shape
    assert Synthetic(shape=layout, train=2, test=2).load(None).shape == shape


def experiment_on(*datasets: Any) -> Experiment:
    tasks = tuple(Task(f"task{number}", dataset) for number, dataset in enumerate(datasets))
    return Experiment(rounds=1, clients=Clients(2), tasks=tasks)


def test_tasks_on_one_data_set_share_its_arrays() -> None:
    arrays = DataCache(None).arrays(experiment_on(Synthetic(), Synthetic(seed=1), Synthetic()))
    assert list(arrays) == ["task0", "task1", "task2"]
    assert arrays["task0"] is arrays["task2"]
    assert arrays["task0"] is not arrays["task1"]


def test_missing_data_names_its_task() -> None:
    message = refused(lambda: DataCache(None).arrays(experiment_on(Synthetic(), Npz("gone.npz"))))
    assert message == f"task 'task1': data set 'gone.npz' does not exist in {str(Path.cwd())!r}"


def test_one_letter_per_class_is_a_way_to_name_classes(tmp_path: Path) -> None:
    x, y = np.zeros((6, 2, 2), np.uint8), np.arange(6) % 3
    letters = np.array("ABCDEFG")
    np.savez(tmp_path / "x.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=letters)
    assert Named("x").load(tmp_path).classes == 7
