"""Where data sets are looked for when nobody says where, or says it with a tilde."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mmfl.data import Named, data_folder, default_folder, wanted_folder
from mmfl.errors import DataError
from support.helpers import one_line


@pytest.fixture(params=[None, ""], ids=["unset", "empty"])
def nowhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME is not set, or empty, and the system does not know the user."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if request.param is not None:
        monkeypatch.setenv("HOME", request.param)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("nowhere")
def test_without_a_home_a_folder_must_be_named(tmp_path: Path) -> None:
    message = one_line(DataError, default_folder)
    assert message == (
        "the data folder '~/.cache' is in a home folder, but none is known; set HOME, or name "
        "another data folder with data_dir or MMFL_DATA"
    )
    assert one_line(DataError, lambda: Named("mnist").load(None)) == message
    assert Named("letters").load(None).classes == 26  # comes with mmfl
    assert Named("letters").bytes_needed(None) == 0
    x, y = np.zeros((3, 2)), np.arange(3)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert Named("mine").load(tmp_path).classes == 3
    assert "`mmfl data fetch mnist --data-dir" in one_line(
        DataError, lambda: Named("mnist").load(tmp_path)
    )
    assert not Path("~").exists()


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert data_folder("~/mine") == tmp_path / "mine"
    monkeypatch.setenv("MMFL_DATA", "~/mine")
    assert data_folder(None) == tmp_path / "mine"


def test_an_empty_home_is_the_one_that_the_system_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the root of the file system, where /.cache would be."""
    user = SimpleNamespace(pw_dir=str(tmp_path))
    monkeypatch.setattr("pwd.getpwuid", lambda number: user)
    monkeypatch.delenv("XDG_CACHE_HOME")
    for set_home in (lambda: monkeypatch.setenv("HOME", ""), lambda: monkeypatch.delenv("HOME")):
        set_home()
        assert default_folder() == tmp_path / ".cache" / "mmfl"
        assert wanted_folder("~") == tmp_path
        assert wanted_folder("a/~") == Path("a/~")
