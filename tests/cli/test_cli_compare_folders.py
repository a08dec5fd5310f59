"""``mmfl compare``: which folder a comparison gets, and which it must leave alone."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest

from support.experiments import write_small

TEXT = write_small(top="rounds = 1", local="steps = 1")
KINDS = ("--vary", "allocator.kind=fed_fair,uniform")
ALPHAS = ("--vary", "allocator.alpha=1,3")
HOLDS = "holds another comparison (of 'fed_fair', 'uniform')"


@pytest.fixture
def compare(call, tmp_path, no_figures):
    """Compare variants with seed 0, quietly."""
    (tmp_path / "a.toml").write_text(TEXT)

    def compare(*options: str, seeds: str = "0") -> tuple[int, str, str]:
        return call("compare", tmp_path / "a.toml", "--seeds", seeds, "-q", *options)

    return compare


def contents(folder: str = "runs/a-compare") -> dict[str, bytes]:
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def names(folder: str) -> list[str]:
    found = json.loads(Path(folder, "comparison.json").read_text())
    return [variant["name"] for variant in found["variants"]]


def test_other_variants_get_the_next_folder(compare):
    assert compare(*KINDS) == (0, "", "")
    before = contents()
    skipped = f"mmfl: skipping runs/a-compare: 'runs/a-compare' {HOLDS}\n"
    assert compare(*ALPHAS) == (0, "", skipped)
    assert compare(*ALPHAS, seeds="0-1") == (0, "", skipped)
    assert contents() == before
    assert names("runs/a-compare-2") == ["alpha=1", "alpha=3"]
    assert sorted(path.name for path in Path("runs").iterdir()) == ["a-compare", "a-compare-2"]
    assert compare(*KINDS) == (0, "", "")
    assert contents() == before


def test_fewer_variants_are_another_comparison_and_more_are_not(compare):
    assert compare(*KINDS)[0] == 0
    assert HOLDS in compare("--vary", "allocator.kind=uniform")[2]
    assert compare("--vary", "allocator.kind=round_robin,uniform,fed_fair") == (0, "", "")
    assert names("runs/a-compare") == ["round_robin", "uniform", "fed_fair"]


def test_an_unfinished_comparison_has_its_folder_from_its_first_round_on(compare, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mmfl.cli.compare.CompareView.show", interrupt)
        assert compare(*KINDS)[0] == 130
    assert not Path("runs/a-compare/comparison.json").exists()
    assert HOLDS in compare(*ALPHAS)[2]
    assert compare(*KINDS) == (0, "", "")
    assert names("runs/a-compare") == ["fed_fair", "uniform"]


def test_force_replaces_the_tables_also_in_the_folder_that_it_finds(compare):
    assert compare(*KINDS)[0] == 0
    assert compare(*ALPHAS, "--force") == (0, "", "")
    assert names("runs/a-compare") == ["alpha=1", "alpha=3"]
    assert [path.name for path in Path("runs").iterdir()] == ["a-compare"]


def test_an_interrupted_extension_leaves_the_folder_to_the_tables_that_it_has(compare, monkeypatch):
    def interrupt(_, run, event):
        if event is not None:  # a round
            raise KeyboardInterrupt

    assert compare(*KINDS)[0] == 0
    before = contents()
    more = ("--vary", "allocator.kind=fed_fair,uniform,round_robin")
    with monkeypatch.context() as patch:
        patch.setattr("mmfl.cli.compare.CompareView.show", interrupt)
        assert compare(*more)[0] == 130
    assert compare(*KINDS) == (0, "", "")
    tables = ("runs/a-compare/comparison.md", "runs/a-compare/comparison.json")
    assert all(contents()[name] == before[name] for name in tables)
    assert HOLDS in compare(*ALPHAS)[2]
    assert compare(*more) == (0, "", "")
    assert names("runs/a-compare") == ["fed_fair", "uniform", "round_robin"]


def test_a_variant_that_cannot_run_leaves_the_folder_as_it_was(compare):
    flip = "tasks.a.augment.flip=false"
    assert compare("--vary", flip)[0] == 0
    before = contents()
    code, _, err = compare("--vary", f"{flip},true")
    assert (code, "augment is for images" in err) == (2, True)
    assert contents() == before
    assert compare("--vary", flip) == (0, "", "")


@pytest.mark.parametrize("older", [True, False])
def test_a_folder_that_is_named_is_refused_unless_forced(compare, older):
    out = ("--out", "here")
    assert compare(*KINDS, *out)[0] == 0
    if older:  # its list of files had no names
        record = Path("here/mmfl-compare.json")
        text = {k: v for k, v in json.loads(record.read_text()).items() if k != "variants"}
        record.write_text(json.dumps(text))
    before = contents("here")
    advice = "choose another folder (--out), or replace its tables with --force"
    assert compare(*ALPHAS, *out) == (2, "", f"mmfl: 'here' {HOLDS}; {advice}\n")
    assert contents("here") == before
    assert compare(*ALPHAS, *out, "--force") == (0, "", "")
    assert names("here") == ["alpha=1", "alpha=3"]


def test_other_seeds_of_another_experiment_are_another_comparison(compare):
    assert compare(*KINDS)[0] == 0
    before = contents()
    longer = (*KINDS, "--set", "rounds=2")
    code, _, err = compare(*longer, seeds="1")
    assert code == 0
    said = "holds a run of another experiment: rounds was 1 and is now 2"
    assert err == f"mmfl: skipping runs/a-compare: 'runs/a-compare/fed_fair/seed-0' {said}\n"
    assert contents() == before
    assert compare(*KINDS, seeds="1") == (0, "", "")


def test_a_run_directory_is_not_for_a_comparison(compare, call, tmp_path):
    assert call("run", tmp_path / "a.toml", "-q", "--out", "runs/a-compare")[0] == 0
    before = contents()
    said = "'runs/a-compare' is a run directory"
    assert compare("--out", "runs/a-compare") == (
        2, "", f"mmfl: {said}; choose another folder (--out)\n"
    )  # fmt: skip
    assert compare() == (0, "", f"mmfl: skipping runs/a-compare: {said}\n")
    assert contents() == before
    assert names("runs/a-compare-2") == ["as is"]


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_comparison_is_not_for_a_run(compare, call, tmp_path, resume):
    assert compare("--out", "here")[0] == 0
    before = contents("here")
    code, out, err = call("run", tmp_path / "a.toml", "-q", "--out", "here", *resume)
    said = "is a comparison; name one of its runs" if resume else "already exists; choose another"
    assert (code, out) == (2, "")
    assert err.startswith(f"mmfl: 'here' {said}")
    assert contents("here") == before


def test_edited_code_is_warned_of_and_its_old_results_are_kept(compare, monkeypatch, tmp_path):
    code = "def share(outputs, targets):\n    return (outputs.argmax(1) == targets).float()\n"
    own = ("--set", "tasks.a.metric=edited_metric:share", "--allow-imports")
    monkeypatch.syspath_prepend(tmp_path)
    Path("edited_metric.py").write_text(code)
    assert compare(*own) == (0, "", "")
    Path("edited_metric.py").write_text(f"{code}# edited\n")
    monkeypatch.delitem(sys.modules, "edited_metric")  # as in a new process
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = compare(*own)
    changed = "the code of edited_metric has changed since 1 run finished"
    advice = "to run the new code, choose another folder (--out)"
    assert (code, err) == (0, f"mmfl: warning: 'runs/a-compare': {changed}; {advice}\n")
    monkeypatch.delitem(sys.modules, "edited_metric")
