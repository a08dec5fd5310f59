"""No command imports a module that a file names, unless it is told to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mmfl import Experiment
from mmfl.errors import ConfigError
from mmfl.market import Market
from support.experiments import LEAST_INLINE

MODULE = "payload_of_a_stranger"
PAYLOAD = """
import pathlib
from dataclasses import dataclass
pathlib.Path("was_imported").touch()

@dataclass(frozen=True)
class X:
    def quantile(self, u):
        return u

    def allocate(self, view, state, *, rng):
        return [(client, 0, 1.0) for client in view.clients.tolist()], state
"""
MARKET = f"""
clients = 4
[tasks.a]
kind = "{MODULE}:X"
"""
EXPERIMENT = LEAST_INLINE
OWN_ALLOCATOR = f'{EXPERIMENT}[allocator]\nkind = "{MODULE}:X"\n'
RECRUITMENT = f"""{EXPERIMENT}
[recruitment]
mechanism = {{ kind = "max_min_fair", budget = 1.0 }}
bids = {{ kind = "{MODULE}:X" }}
"""
AUCTIONS = [
    ("auction", "run", "FILE", "--budget", "2"),
    ("auction", "compare", "FILE", "--budget", "2"),
    ("auction", "check", "FILE", "--budget", "2", "--clients", "1", "--tries", "32"),
]
COMMANDS = [
    ("run", "FILE"),
    ("check", "FILE"),
    ("compare", "FILE", "--seeds", "0", "--jobs", "1"),
    ("plan", "FILE", "--draws", "1"),
    ("profile", "FILE", "--rounds", "2"),
]


@pytest.fixture(autouse=True)
def _payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / f"{MODULE}.py").write_text(PAYLOAD)
    (tmp_path / "market.toml").write_text(MARKET)
    (tmp_path / "own.toml").write_text(OWN_ALLOCATOR)
    (tmp_path / "recruitment.toml").write_text(RECRUITMENT)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m mmfl` has it
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        *((command, "market.toml") for command in AUCTIONS),
        *((command, "recruitment.toml") for command in [*AUCTIONS, *COMMANDS]),
        *((command, "own.toml") for command in COMMANDS),
    ],
    ids=lambda value: "_".join(value[:2]) if isinstance(value, tuple) else value,
)
def test_it_is_refused_in_one_sentence(call, command, file):
    code, out, err = call(*(file if word == "FILE" else word for word in command))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"'{MODULE}:X' would import code; pass --allow-imports" in err
    assert not Path("was_imported").exists()
    assert MODULE not in sys.modules


@pytest.mark.parametrize("command", AUCTIONS, ids=lambda command: command[1])
@pytest.mark.parametrize("file", ["market.toml", "recruitment.toml"])
def test_it_is_imported_when_allowed(call, command, file):
    words = [file if word == "FILE" else word for word in command]
    code, _, err = call(*words, "--allow-imports")
    assert (code, err) == (0, "")
    assert Path("was_imported").exists()


def test_a_set_option_imports_nothing(call):
    Path("plain.toml").write_text(EXPERIMENT)
    code, _, err = call("check", "plain.toml", "--set", f"allocator={MODULE}:X")
    assert (code, "would import code" in err) == (2, True)
    assert not Path("was_imported").exists()


def test_python_imports_nothing_either():
    for load in (
        lambda: Market.load("market.toml"),
        lambda: Experiment.load("own.toml"),
        lambda: Experiment(rounds=1, clients={"count": 2}, tasks=(), allocator=f"{MODULE}:X"),
    ):
        with pytest.raises(ConfigError, match="would import code; pass allow_imports=True"):
            load()
    assert not Path("was_imported").exists()
    assert Market.load("market.toml", allow_imports=True).bids().shape == (4, 1)


def test_a_module_next_to_the_file_comes_before_one_in_the_current_folder(call):
    folder = Path("mine")
    folder.mkdir()
    (folder / f"{MODULE}.py").write_text(PAYLOAD.replace("was_imported", "the_right_one"))
    (folder / "own.toml").write_text(OWN_ALLOCATOR)
    code, _, err = call("check", folder / "own.toml", "--allow-imports")
    assert (code, err) == (0, "")
    assert Path("the_right_one").exists()
    assert not Path("was_imported").exists()
