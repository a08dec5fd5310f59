"""``mmfl compare`` as a person uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import mmfl
from support.experiments import write_small

TEXT = write_small("a", "b")


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "fair.toml"
    path.write_text(TEXT)
    return path


def sentence(err: str) -> str:
    assert err.startswith("mmfl: ")
    assert err.count("\n") == 1, err
    return err.strip()


VARY = ("--vary", "allocator=fed_fair,uniform", "--seeds", "0-1")


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("seed-*/*") if path.is_file()}


def test_a_target_that_no_run_can_reach_is_refused_before_training(call, config):
    code, out, err = call("compare", config, "--target", "2")
    assert (code, out) == (2, "")
    assert err.startswith("mmfl: --target must be at most 1, the best that task '")
    assert err.endswith(" can reach, got 2\n")
    assert not Path("runs").exists()


def test_tables_picture_and_data_lie_beside_the_runs(call, config):
    code, out, err = call("compare", config, *VARY, "--target", "0.1")
    assert (code, err) == (0, "")
    folder = Path("runs/fair-compare")
    names = {path.name for path in folder.iterdir()}
    tables = {
        "comparison.json",
        "comparison.md",
        "comparison.png",
        "mmfl-compare.json",
        "report.html",
    }
    assert names == {*tables, "fed_fair", "uniform"}
    lines = [line.split(": ")[0] for line in out.split("\n") if line.startswith("run ")]
    assert lines == [
        f"run {n}/4  {variant}, seed {seed}"
        for n, (seed, variant) in enumerate(
            [(s, v) for s in (0, 1) for v in ("fed_fair", "uniform")], start=1
        )
    ]
    said = f"figure: {folder}/comparison.png\nreport: {folder}/report.html\n"
    assert out.endswith(f"{said}tables and runs: {folder}\n")
    found = json.loads((folder / "comparison.json").read_text())
    assert [variant["name"] for variant in found["variants"]] == ["fed_fair", "uniform"]
    for variant in found["variants"]:
        for seed in variant["seeds"]:
            assert mmfl.Run.load(folder / variant["name"] / f"seed-{seed}").status == "finished"
    text = (folder / "comparison.md").read_text()
    assert "fed_fair" in text
    assert "uniform" in text


def test_the_same_command_again_runs_nothing_and_draws_the_same(call, config):
    call("compare", config, *VARY)
    folder = Path("runs/fair-compare")
    before, picture = files(folder), (folder / "comparison.png").read_bytes()
    code, out, err = call("compare", config, *VARY)
    assert (code, err) == (0, "")
    assert out.startswith("4 of 4 runs are already finished\n")
    assert "run 1/4" not in out
    assert files(folder) == before
    assert (folder / "comparison.png").read_bytes() == picture
    code, out, _ = call("compare", config, *VARY[:3], "0-2")
    assert code == 0
    assert out.startswith("4 of 6 runs are already finished\nrun 5/6  fed_fair, seed 2")
    assert {path: time for path, time in files(folder).items() if path in before} == before


@pytest.mark.usefixtures("no_figures")
def test_another_experiment_goes_to_a_folder_of_its_own_or_is_refused(call, config):
    call("compare", config, *VARY)
    before = files(Path("runs/fair-compare"))
    other = ("compare", config, *VARY, "--set", "local.lr=0.5", "-q")
    code, out, err = call(*other)
    assert (code, out) == (0, "")
    assert sentence(err).startswith("mmfl: skipping runs/fair-compare: 'runs/fair-compare/")
    assert sorted(p.name for p in Path("runs").iterdir()) == ["fair-compare", "fair-compare-2"]
    code, out, err = call(*other, "--out", "runs/fair-compare")
    assert (code, out) == (2, "")
    said = "holds a run of another experiment: local.lr was 0.01 and is now 0.5; choose another"
    assert f"{said} folder (--out)" in sentence(err)
    assert files(Path("runs/fair-compare")) == before


@pytest.mark.usefixtures("no_figures")
def test_json_is_one_object_and_all_else_goes_to_standard_error(call, config):
    code, out, err = call("compare", config, *VARY, "--json", "--out", "here")
    assert code == 0
    found = json.loads(out)
    assert out.count("\n") == 1
    assert found["out"] == "here"
    assert found == json.loads(Path("here/comparison.json").read_text())
    assert {"tasks", "variants", "differences", "target"} <= set(found)
    assert "run 1/4" in err
    code, out, err = call("compare", config, *VARY, "--json", "--quiet", "--out", "here")
    assert (code, err) == (0, "")
    assert json.loads(out) == found


@pytest.mark.usefixtures("no_figures")
def test_a_number_that_is_not_finite_is_null_in_json(call, config):
    huge = ("--set", "tasks.a.metric=perplexity", "--set", "tasks.a.lr=100", "--json")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    for command in (("compare", config, *VARY), ("run", config, "--quiet")):
        code, out, _ = call(*command, *huge)
        assert (code, "null" in out) == (0, True)
        json.loads(out, parse_constant=refuse)


@pytest.mark.usefixtures("no_figures")
def test_a_grid_with_odd_values(call, config):
    kinds, rates = "allocator={kind='fed_fair', alpha=2.0},uniform", "local.lr=1e-2,0.1"
    vary = ("--vary", kinds, "--vary", rates, "--seeds", "3")
    code, _, err = call("compare", config, *vary, "--out", "grid", "-q")
    assert (code, err) == (0, "")
    folders = sorted(path.name for path in Path("grid").iterdir() if path.is_dir())
    assert folders == [
        "fed_fair-alpha=2.0-lr=0.01", "fed_fair-alpha=2.0-lr=0.1", "uniform-lr=0.01",
        "uniform-lr=0.1",
    ]  # fmt: skip
    text = Path("grid/fed_fair-alpha=2.0-lr=0.1/seed-3/experiment.toml").read_text()
    stored = mmfl.Experiment.from_toml(text)
    assert stored.allocator.alpha == 2.0
    assert stored.training("a").lr.rate(0) == 0.1
    assert stored.seed == 3


@pytest.mark.usefixtures("no_figures")
def test_without_variants_it_is_one_experiment_over_seeds(call, config):
    code, out, err = call("compare", config, "--seeds", "0,2", "--out", "one")
    assert (code, err) == (0, "")
    assert "run 2/2  as is, seed 2" in out
    assert json.loads(Path("one/comparison.json").read_text())["differences"] == []


def test_a_figure_goes_where_it_is_asked_for(call, config):
    code, out, err = call("compare", config, *VARY, "--figure", "pictures/it.svg")
    assert (code, err) == (0, "")
    assert Path("pictures/it.svg").read_text().startswith("<?xml")
    assert "figure: pictures/it.svg\n" in out


def test_without_matplotlib_there_are_the_tables_and_how_to_get_the_picture(
    call, config, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = call("compare", config, *VARY, "--out", "here")
    assert (code, err) == (0, "")
    [line] = [line for line in out.split("\n") if line.startswith("no figure: ")]
    assert "pip install" in line
    assert "mmfl[report]" in line
    assert "fed_fair" in Path("here/comparison.md").read_text()
    assert not list(Path("here").glob("*.png"))
    code, out, err = call("compare", config, *VARY, "--out", "there", "--figure", "x.png")
    assert (code, out) == (2, "")
    assert "pip install" in sentence(err)
    assert not Path("there").exists()


def mistakes() -> dict[str, tuple[list[str], str]]:
    model = "tasks.a.warm_start='first.safetensors'"
    return {
        "vary": (["--vary", "lr"], "--vary takes key=a,b"),
        "twice": (["--vary", "local.lr=1,1.0,1"], "--vary gives 'lr=1' twice"),
        "key": (["--vary", "local.rl=1,2"], "--vary: local.rl is not a known key; "),
        "value": (
            ["--vary", "allocator=fair,uniform"],
            "--vary: allocator.kind: unknown allocator 'fair'",
        ),
        "path": (["--vary", "tasks.c.lr=1,2"], "mmfl: --vary: tasks has no 'c'; "),
        "set": (["--set", "rounds=0", "--vary", "seed=1,2"], "mmfl: --set: rounds must be"),
        "seeds": (["--seeds", "a"], "--seeds takes numbers and ranges"),
        "seed set": (["--set", "seed=3"], "choose seeds with --seeds"),
        "seed varied": (["--vary", "seed=1,2"], "choose seeds with --seeds"),
        "names": (["--vary", "tasks.a.name=x,y"], "must have the same tasks, in the same order"),
        "figure": (["--figure", "x.txt"], "x.txt"),
        "imports": (["--vary", "tasks.a.loss=m:f,mse"], "would import code; pass --allow-imports"),
        "loss": (["--set", "tasks.a.loss=mse"], "seed 0: task 'a': its loss is for real numbers"),
        "metric": (["--set", "tasks.a.metric=r2"], "seed 0: task 'a': its loss or metric fails"),
        "augment": (["--set", "tasks.a.augment.flip=true"], "task 'a': augment is for images"),
        "scale": (
            ["--set", "tasks.a.normalize={kind='given', mean=[1, 2], std=1}"],
            "task 'a': normalize.mean must be one number or 16",
        ),
        "warm start": (["--set", "tasks.a.warm_start=none"], "warm_start 'none' cannot be read"),
        "other tensors": (["--set", model], "task 'a': warm_start 'first.safetensors' has no"),
        "data": (["--set", "tasks.a.dataset=nowhere"], "task 'a': data set 'nowhere'"),
    }


@pytest.mark.parametrize("name", mistakes())
def test_a_mistake_is_one_sentence_exit_code_2_and_nothing_is_written(call, config, name):
    save_file({"x": np.zeros(2, np.float32)}, "first.safetensors")
    arguments, rule = mistakes()[name]
    code, out, err = call("compare", config, *arguments)
    assert (code, out) == (2, "")
    assert rule in sentence(err)
    assert not Path("runs").exists()


@pytest.mark.usefixtures("no_figures")
def test_control_c_ends_it_and_the_same_command_goes_on(call, config):
    many = ("compare", config, "--seeds", "0-7", "--set", "rounds=20", "--out", "here")
    command = [sys.executable, "-m", "mmfl", *map(str, many)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        for line in process.stdout:
            if line.startswith("run 1/8"):
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate()
        assert process.returncode == 130, (out, err)
    assert err == (
        "mmfl: stopped (finished runs are in here; run the same command again to resume)\n"
    )
    assert "figure" not in out
    before = {p: t for p, t in files(Path("here")).items() if "seed-0" in p.parts}
    code, out, err = call(*many)
    assert (code, err) == (0, "")
    kept = int(out.split(" of 8 runs are already finished")[0])
    assert 1 <= kept < 8
    assert f"run {kept + 1}/8" in out
    assert {p: t for p, t in files(Path("here")).items() if "seed-0" in p.parts} == before
    statuses = {mmfl.Run.load(folder).status for folder in Path("here").glob("*/seed-*")}
    assert statuses == {"finished"}
