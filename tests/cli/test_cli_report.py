"""``mmfl report``: what it writes, what it replaces, and its sentences."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mmfl
from mmfl.report.document import pdf
from mmfl.runs import stored_rounds


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_toml) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "one"
    return mmfl.run(mmfl.Experiment.from_toml(small_toml), folder).folder


@pytest.fixture(autouse=True)
def run(made) -> Path:
    shutil.copytree(made, "runs/one")
    return Path("runs/one")


def test_it_writes_a_page_and_names_it(call, run):
    code, out, err = call("report", run)
    assert (code, err) == (0, "")
    assert out == f"report: report.html ({Path('report.html').stat().st_size / 1000:.0f} kB)\n"
    assert "Report on one" in Path("report.html").read_text()


def test_it_writes_what_is_asked_for(call, run):
    code, out, err = call("report", "runs", "--html", "a/r.html", "--md", "a/r.md", "--title", "X")
    assert (code, err, len(out.splitlines())) == (0, "", 2)
    assert "<h1>X</h1>" in Path("a/r.html").read_text()
    assert "\n# X\n" in Path("a/r.md").read_text()
    assert call("report", run, "--md", "only.md")[0] == 0
    assert not Path("report.html").exists()


def test_a_report_replaces_a_report_and_nothing_else(call, run):
    assert call("report", run, "--html", "r.html", "--md", "r.md")[0] == 0
    assert call("report", run, "--html", "r.html", "--md", "r.md")[0] == 0
    for name in ("mine.html", "mine.md"):
        Path(name).write_text("mine")
        option = f"--{name[5:]}"
        code, out, err = call("report", run, option, name)
        said = (
            f"{option}: {name!r} already exists and is not a report; name another file, or replac"
        )
        assert (code, out, said in err) == (2, "", True)
        assert Path(name).read_text() == "mine"
        assert call("report", run, option, name, "--force")[0] == 0
        assert Path(name).read_text() != "mine"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gone",), "'gone' does not exist"),
        (("empty",), "there is no run in 'empty'"),
        (("runs/one", "--html", "empty"), "--html: 'empty' is a folder; name a file"),
        (("runs/one", "--html", "x", "--md", "x"), "--html and --md name the same file; name dif"),
        (("runs/one", "--target", "nan"), "--target must be a number, got nan"),
    ],
)
def test_mistakes_are_one_sentence(call, words, sentence):
    Path("empty").mkdir()
    code, out, err = call("report", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"mmfl: {sentence}" in err


def test_what_is_left_out_gives_exit_code_1(call, run, small):
    with stored_rounds(small, "runs/part") as rounds:
        next(rounds)
    code, out, err = call("report", "runs")
    assert (code, "report.html" in out) == (1, True)
    assert err == "mmfl: runs/part is left out: it is stopped after round 1 of 3\n"


def test_a_pdf_needs_a_browser(call, monkeypatch, run):
    monkeypatch.setenv("PATH", "")
    code, out, err = call("report", run, "--pdf", "r.pdf", "--html", "r.html")
    assert (code, out, Path("r.html").exists()) == (2, "", False)
    assert err.startswith("mmfl: a PDF needs a browser, but none of chromium, ")
    assert not Path("r.pdf").exists()


def fake_browser(monkeypatch, script: str) -> None:
    Path("bin").mkdir()
    browser = Path("bin/chromium")
    browser.write_text(f"#!/bin/sh\n{script}\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path('bin').resolve()}:/usr/bin:/bin")


def test_a_browser_prints_the_page(call, monkeypatch, run):
    find = "case $w in --print-to-pdf=*) out=${w#*=};; file://*) page=${w#file://}; esac"
    fake_browser(monkeypatch, f'for w; do {find}; done; (echo "%PDF-"; cat "$page") > "$out"')
    assert call("report", run, "--pdf", "r.pdf")[0] == 0
    assert Path("r.pdf").read_bytes().startswith(b"%PDF-\n<!doctype html>")
    assert not Path("report.html").exists()


def test_a_browser_that_fails_or_hangs_is_one_sentence(call, monkeypatch, run):
    fake_browser(monkeypatch, "exit 3")
    code, _, err = call("report", run, "--pdf", "r.pdf")
    assert (code, "did not print the page (exit code 3)" in err) == (2, True)
    Path("bin/chromium").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(pdf, "_PATIENCE", 0.05)
    code, _, err = call("report", run, "--pdf", "r.pdf")
    assert (code, "did not print the page in 0.05 s" in err) == (2, True)
