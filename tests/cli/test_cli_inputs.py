"""No command writes into a file that the experiment names, not even with --force."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mmfl.data import Synthetic
from support.experiments import LEAST_INLINE

RECRUITMENT = """
[recruitment]
mechanism = { kind = "max_min_fair", budget = 9.0 }
bids = { kind = "csv", path = "FILE" }
[[tasks]]"""
DATA = 'dataset = { kind = "synthetic", train = 40, test = 10 }'
NAMED = {
    "bids": ("[[tasks]]", RECRUITMENT),
    "warm start": (DATA, f'{DATA}\nwarm_start = "FILE"'),
    "partition": (DATA, f'{DATA}\npartition = {{ kind = "mine:Split", path = "FILE" }}'),
    "npz": (DATA, 'dataset = { kind = "npz", path = "FILE" }'),
    "csv": (DATA, 'dataset = { kind = "csv", path = "FILE" }'),
    "test split": (DATA, 'dataset = { kind = "parquet", path = "x", test = "FILE" }'),
    "named": (DATA, 'dataset = "mine"'),
    "reduced": (DATA, 'dataset = { kind = "reduced", name = "mine", train = 9 }'),
    "module": (DATA, f'{DATA}\nmodel = {{ kind = "mine:Model" }}'),
}
COMMANDS = [("plan", "--draws", "1"), ("compare", "--seeds", "0", "--out", "runs")]
MINE = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Split:
    path: str
    def named_files(self): return {"path": self.path}
    def split(self, examples, clients, *, rng): raise AssertionError
@dataclass(frozen=True)
class Model:
    def build(self, shape, outputs): raise AssertionError
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("data").mkdir()
    yield
    sys.modules.pop("mine", None)


def write(named: str, file: str) -> None:
    """An experiment that names a file, which exists, in one of the ways above."""
    old, new = NAMED[named]
    Path("e.toml").write_text(LEAST_INLINE.replace(old, new.replace("FILE", file)))
    Path(file).write_text("client,a\n0,0.1\n1,0.2\n2,0.3\n3,0.1\n")


def everything() -> dict[Path, bytes]:
    files = [path for path in Path().rglob("*.*") if path.is_file() and path.suffix != ".pyc"]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("named", NAMED)
def test_a_figure_never_replaces_what_the_experiment_names(call, command, named):
    pytest.importorskip("matplotlib")
    inside = named in ("csv", "npz", "test split")
    file = "data/b.png" if inside else "b.png"
    write(named, file)
    if inside:
        Path("e.toml").write_text(Path("e.toml").read_text().replace("data/b.png", "b.png"))
    if named in ("named", "reduced"):
        Path("data/mine.npz").symlink_to("../b.png")
    if named == "module":
        os.replace("mine.py", "b.png")
        Path("mine.py").symlink_to("b.png")
    before = everything()
    words = ("--figure", file, "--force", "--data-dir", "data", "--allow-imports")
    code, out, err = call(command[0], "e.toml", *command[1:], *words)
    assert (code, out) == (2, "")
    assert err == f"mmfl: --figure: {file!r} is the input; name another file\n"
    assert everything() == before


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_figure_is_never_written_into_a_folder_of_images(call, command):
    pytest.importorskip("matplotlib")
    new = 'dataset = { kind = "image_folder", path = "photos" }'
    Path("e.toml").write_text(LEAST_INLINE.replace(DATA, new))
    Path("photos/cat").mkdir(parents=True)
    words = ("--figure", "photos/cat/1.png", "--force")
    code, out, err = call(command[0], "e.toml", *command[1:], *words)
    assert (code, out) == (2, "")
    said = "'photos/cat/1.png' is in the input 'photos'; name another folder"
    assert err == f"mmfl: --figure: {said}\n"
    assert not list(Path("photos/cat").iterdir())


def test_the_tables_of_a_comparison_never_replace_what_a_variant_names(call):
    Path("runs").mkdir()
    write("bids", "runs/comparison.json")
    Path("e.toml").write_text(Path("e.toml").read_text().replace("runs/comp", "other/comp"))
    before = everything()
    vary = ("--vary", 'recruitment.bids.path="a.csv","runs/comparison.json"')
    code, out, err = call("compare", "e.toml", *vary, *COMMANDS[1][1:], "--force")
    assert (code, out) == (2, "")
    said = "'runs/comparison.json' is the input; choose another folder (--out)"
    assert err == f"mmfl: {said}\n"
    assert everything() == before


@pytest.mark.parametrize("out", ["warm.csv", "mine.py", "data.npz"])
def test_an_auctions_table_never_replaces_what_the_experiment_names(call, out):
    write("bids", "asked.csv")
    new = 'dataset = { kind = "npz", path = "data.npz" }\nwarm_start = "warm.csv"\n'
    new += 'model = { kind = "mine:Model" }'
    Path("e.toml").write_text(Path("e.toml").read_text().replace(DATA, new))
    Path("warm.csv").touch()
    arrays = Synthetic(train=40, test=10).load(None)
    np.savez("data.npz", x_train=arrays.x_train)
    before = everything()
    words = ("e.toml", "--out", out, "--force", "--allow-imports")
    code, said, err = call("auction", "run", *words)
    assert (code, said) == (2, "")
    assert err == f"mmfl: --out: {out!r} is the input; name another file\n"
    assert everything() == before


def test_the_name_of_an_input_may_be_impossible(call):
    Path("e.toml").write_text(LEAST_INLINE.replace(DATA, f'{DATA}\nwarm_start = "a\\u0000b"'))
    code, _, err = call("plan", "e.toml", "--draws", "1", "--figure", "it.png")
    assert (code, err) == (0, "")
    assert Path("it.png").is_file()
