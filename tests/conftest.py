"""Settings and small experiments that many tests share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, settings

from mmfl import Experiment
from mmfl.allocate import View
from mmfl.config import imports_allowed
from support.warm import Nursery, WarmPopen

for name, examples in (("short", 25), ("long", 100)):  # of `make test` and `make test-all`
    settings.register_profile(
        name,
        deadline=None,
        derandomize=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("short")

# A shell that starts `make test &` has its children ignore Ctrl-C, and theirs; nohup does the same
# with SIGHUP. Tests that send these signals would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

SMALL = """
rounds = 3
seed = 1
[clients]
count = 10
active = 0.8
[local]
epochs = 1
batch_size = 16
lr = 0.05
[engine]
kind = "inline"
[[tasks]]
name = "dense"
dataset = { kind = "synthetic", classes = 3, train = 300, test = 100, noise = 0.5 }
model = { kind = "mlp", hidden = [8], dropout = 0.3 }
[[tasks]]
name = "image"
dataset = { kind = "synthetic", classes = 4, shape = [8, 8], train = 400, test = 150, seed = 2 }
model = { kind = "cnn", channels = [2, 4], dense = 8, dropout = 0.2 }
partition = { kind = "half_classes", points = [10, 30] }
steps = 3
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests live to the end: no search for garbage need look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def small_toml() -> str:
    """Two small tasks with dropout layers, in this process."""
    return SMALL


@pytest.fixture
def small(small_toml: str) -> Experiment:
    """The same, read."""
    return Experiment.from_toml(small_toml)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own, without the user's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MMFL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("FLWR_")]:
        monkeypatch.delenv(name)
    for name in ("COLUMNS", "LINES"):  # pytest-xdist sets them in its workers
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _warm_processes() -> Iterator[None]:
    """Processes of ours are forked from one that has imported torch: see `support.warm`."""
    real = subprocess.Popen
    WarmPopen.nursery = Nursery.cold()
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    yield
    subprocess.Popen = real  # type: ignore[misc]
    WarmPopen.nursery.end()


@pytest.fixture(autouse=True)
def _cold_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is marked with `cold` starts its processes from nothing."""
    if request.node.get_closest_marker("cold"):
        monkeypatch.setattr(subprocess, "Popen", WarmPopen.__base__)


@pytest.fixture
def imports() -> Iterator[None]:
    """``module:Name`` is imported in this test, as with --allow-imports."""
    with imports_allowed(True):
        yield


@pytest.fixture(scope="session")
def make_view() -> Callable[..., View]:
    """An allocator's view of a round from an eligibility table; the rest has plain defaults."""

    def make(
        eligible: npt.ArrayLike, difficulty: npt.ArrayLike | None = None, **fields: object
    ) -> View:
        may = np.asarray(eligible, dtype=bool)
        n, S = may.shape
        plain: dict[str, object] = {
            "round": 1,
            "rounds": 12,
            "tasks": tuple(f"task{s:02d}" for s in range(S)),
            "difficulty": np.full(S, np.nan)
            if difficulty is None
            else np.asarray(difficulty, dtype=np.float64),
            "clients": np.arange(n),
            "positions": np.arange(n),
            "population": n,
            "sizes": may * 10,
            "eligible": may,
            "capacity": np.ones(n, dtype=np.int64),
        }
        return View(**(plain | fields))

    return make
