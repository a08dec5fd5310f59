"""``mmfl reproduce``: runs, tables, figures, verdicts, and what is stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mmfl.reproduce import find_paper

SCALES = """
[tiny]
about = "Tiny."
rounds = 2
points = 0.1
seeds = 2
experiment = { engine = "inline", checkpoints = { keep = 0 } }
tasks.easy = { dataset = { kind = "synthetic", train = 200, test = 50 } }
tasks.hard = { dataset = { kind = "synthetic", train = 200, test = 50, classes = 9, noise = 3.0 } }
"""

STUDY = """
title = "Mine"
paper = "Nowhere"
points = [100, 200]
maps = true

[experiment]
clients = { count = 6 }

[settings.plain]
tasks = ["easy", "hard", "easy-again"]

[variants.fair]
allocator = { kind = "fed_fair" }

[variants.random]
allocator = { kind = "uniform" }

[[claims]]
kind = "gain"
says = "fair is better"
setting = "plain"
of = "fair"
over = ["random"]
paper = 0.02

[[panels]]
kind = "lines"
title = "Minimum"
setting = "plain"

[[panels]]
kind = "map"
title = "Map"
setting = "plain"
variant = "fair"
"""


@pytest.fixture
def studies(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "scales.toml").write_text(SCALES)
    (folder / "mine.toml").write_text(STUDY)
    return folder


@pytest.fixture
def reproduce(call, studies):
    def reproduce(*options: str) -> tuple[int, str, str]:
        return call("reproduce", "mine", "--scale", "tiny", "--studies", studies, *options)

    return reproduce


def test_it_runs_and_says_what_holds(reproduce):
    code, out, err = reproduce("--jobs", "1")
    assert (code, err) == (0, "")
    assert "fair is better" in out
    assert "paper +.020" in out
    assert "stored" not in out.replace("stored results", "")
    assert Path("runs/reproduce/tiny/mine.png").stat().st_size > 1000
    assert len(list(Path("runs/reproduce/tiny/mine").glob("*/*/seed-*"))) == 4


def test_finished_runs_are_kept_and_figures_need_no_training(reproduce):
    reproduce("--seeds", "1")
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("run.sqlite")}
    code, out, _ = reproduce("--figures-only")
    assert code == 0
    assert "runs to do" not in out
    assert before == {path: path.stat().st_mtime_ns for path in Path("runs").rglob("run.sqlite")}


def test_stored_results_are_compared_and_shown_without_runs(reproduce, studies):
    code, _, _ = reproduce("--store")
    assert code == 0
    assert (studies / "results/tiny/mine.json").exists()
    assert (studies / "results/tiny/mine.png").exists()
    assert r"\begin{tabular}" in (studies / "results/tiny/mine.tex").read_text()
    page = (studies / "RESULTS-tiny.md").read_text()
    assert "fair is better" in page
    assert "mmfl reproduce mine --scale tiny" in page
    code, out, _ = reproduce()
    assert code == 0
    assert "as stored" in out
    shutil.rmtree("runs")
    code, out, _ = reproduce("--figures-only", "--json")
    found = json.loads(out)["mine"]
    assert code == 0
    assert found["claims"][0]["stored"]["seeds"] == 2
    assert found["claims"][0]["yours"] is None


def test_only_what_is_not_stored_is_run(reproduce, studies):
    reproduce("--seeds", "1", "--store")
    path = studies / "results/tiny/mine.json"
    table = json.loads(path.read_text())
    del table["runs"]["plain"]["random"]
    path.write_text(json.dumps(table))
    shutil.rmtree("runs")
    assert reproduce("--missing", "--store")[0] == 0
    runs = {str(path.relative_to("runs/reproduce/tiny/mine/plain"))
            for path in Path("runs").rglob("seed-*")}  # fmt: skip
    assert runs == {"fair/seed-1", "random/seed-0", "random/seed-1"}
    stored = json.loads(path.read_text())["runs"]["plain"]
    assert {name: sorted(seeds) for name, seeds in stored.items()} == {
        "fair": ["0", "1"],
        "random": ["0", "1"],
    }
    shutil.rmtree("runs")
    assert reproduce("--missing")[0] == 0
    assert not list(Path("runs").rglob("seed-*"))


def test_a_result_that_is_not_met_is_exit_code_1(reproduce, studies):
    reproduce("--store")
    path = studies / "results/tiny/mine.json"
    table = json.loads(path.read_text())
    for run in table["runs"]["plain"]["fair"].values():
        run["metric"] = [[value + 0.5 for value in row] for row in run["metric"]]
    path.write_text(json.dumps(table))
    code, out, err = reproduce()
    assert code == 1
    assert "NOT AS STORED" in out
    rule = "a result differs from the stored one by more than the tolerance"
    assert err == f"mmfl: {rule}: mine: fair is better\n"


def test_a_damaged_run_leaves_the_others_alone_and_is_exit_code_1(reproduce, studies):
    other = '[settings.other]\ntasks = ["easy"]\n\n[variants.fair]'
    (studies / "mine.toml").write_text(STUDY.replace("[variants.fair]", other))
    reproduce("--jobs", "1", "--seeds", "1")
    Path("runs/reproduce/tiny/mine/plain/fair/seed-0/models/easy.safetensors").unlink()
    shutil.rmtree("runs/reproduce/tiny/mine/other")
    code, out, err = reproduce("--jobs", "1", "--seeds", "1")
    assert code == 1
    assert "mmfl: mine, plain: 1 of 2 runs failed: fair, seed 0: the run in" in err
    assert "models/easy.safetensors is missing; it is left out" in err
    assert "other: 2 runs to do" in out
    assert "figure: " in out


def test_runs_of_another_experiment_are_not_taken_for_the_studys(reproduce, studies):
    reproduce("--jobs", "1", "--seeds", "1")
    (studies / "scales.toml").write_text(SCALES.replace("rounds = 2", "rounds = 3"))
    code, _, err = reproduce("--figures-only", "--store")
    assert code == 2
    assert "holds a run of another experiment: rounds was 2 and is now 3" in err
    assert not (studies / "results").exists()


def test_a_task_that_never_trained_is_marked(reproduce, studies):
    text = STUDY.replace('{ kind = "uniform" }', '{ kind = "uniform" }\nfaults = { dropout = 1.0 }')
    (studies / "mine.toml").write_text(text)
    code, out, err = reproduce("--jobs", "1", "--seeds", "1")
    assert code == 3
    assert "! plain, random: task 'easy' never trained with seed 0: all" in out
    assert "mmfl: mine: plain, random: task 'easy' never trained" in err


def test_code_is_not_imported_and_control_characters_are_shown(reproduce, studies):
    text = STUDY.replace('title = "Mine"', 'title = "Mi\\u001bne"')
    (studies / "mine.toml").write_text(text.replace('kind = "uniform"', 'kind = "payload:X"'))
    code, out, err = reproduce()
    assert (code, out) == (2, "mine: Mi\\x1bne (Nowhere)\n")
    said = "allocator.kind: 'payload:X' would import code, which a study cannot do"
    assert err == f"mmfl: mine, plain: {said}\n"


def test_nothing_to_show_is_said(reproduce):
    code, out, _ = reproduce("--figures-only")
    assert code == 0
    assert "no finished runs, and no stored results" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exp9"], "there is no study 'exp9'"),
        (["exp2", "--scale", "huge"], "known: smoke, small, paper"),
        (["exp2", "--seeds", "0"], "--seeds"),
        (["exp2", "--jobs", "x"], "--jobs"),
        (["exp2", "--studies", "absent"], "absent"),
        (["all", "--studies", "absent"], "'absent' is not a folder of studies"),
    ],
)
def test_a_mistake_is_one_sentence(call, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = call("reproduce", *arguments)
    assert code == 2
    assert words in err
    assert not list(tmp_path.iterdir())


def test_experiment_5_holds_auctions(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("reproduce", "exp5", "--scale", "smoke", "--seeds", "3", "--json")
    claims = json.loads(out)["exp5"]["claims"]
    verdicts = {claim["says"]: claim["yours"]["verdict"] for claim in claims}
    assert code == 0
    assert sum(verdict == "holds" for verdict in verdicts.values()) >= len(verdicts) - 4
    greedy = "Max-Min Fair has a larger minimum take-up than Greedy (budget 29; Gaussian 0.5, 0.2)"
    assert verdicts[greedy] == "fails"


@pytest.mark.slow
def test_all_of_the_paper_at_the_scale_smoke(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("reproduce", "all", "--scale", "smoke", "--json")
    assert (code, json.loads(out).keys() >= {"exp1", "exp6", "qfel", "table2"}) == (0, True), err
    for name, found in json.loads(out).items():
        assert all(claim["yours"] is not None for claim in found["claims"]), name
    assert find_paper().is_dir()
