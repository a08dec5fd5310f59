"""Every experiment and every benchmark has its page, its target and its place in the index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
KINDS = {"experiment": HOUSE / "experiments", "bench": HOUSE / "benchmarks"}
FOLDERS = [
    pytest.param(kind, folder, id=f"{kind}-{folder.name}")
    for kind, parent in KINDS.items()
    for folder in sorted(parent.iterdir())
    if folder.is_dir() and not folder.name.startswith((".", "_"))
]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "chaos/**/README.md")
    for path in sorted(HOUSE.glob(pattern))
] + [path for parent in KINDS.values() for path in sorted(parent.glob("**/README.md"))]
DRIVERS = sorted(
    path
    for folder in ("experiments", "benchmarks", "chaos", "examples", "tools")
    for path in (HOUSE / folder).glob("**/*.py")
)
MAKEFILE = (HOUSE / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, flags=re.MULTILINE))
TARGETS |= {param.id for param in FOLDERS}


def make(*words: str) -> str:
    """What make prints, whether or not these tests were started by make themselves."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    clean = {name: value for name, value in clean.items() if name not in ("K", "ARGS", "MFLAGS")}
    command = ["make", "--no-print-directory", *words]
    done = subprocess.run(command, cwd=HOUSE, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "folder"), FOLDERS)
def test_a_folder_asks_a_question_and_says_how_to_answer_it(kind, folder):
    page = (folder / "README.md").read_text()
    first = page.splitlines()[0]
    assert re.fullmatch(r"# [A-Z].*\?", first)
    assert f"make {kind}-{folder.name}" in page
    assert "docs/" in page
    assert f"]({folder.name}/README.md)" in (folder.parent / "README.md").read_text()
    assert (folder / "run.py").exists() or list(folder.glob("*.toml"))
    results = [path.name for path in (folder / "results").glob("*")]
    assert not results or any(f"results/{name}" in page for name in results)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_a_page_links_to_files_that_exist(path):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", path.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.parametrize(
    "path", [*HOUSE.glob("*.md"), *sorted(HOUSE.glob("docs/**/*.md"))], ids=lambda path: path.name
)
def test_a_page_names_targets_that_exist(path):
    named = re.findall(r"(?:`|    |\.\.\. |^)make ([a-z][\w-]*)", path.read_text())
    assert [name for name in named if name.islower() and name not in TARGETS] == []


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_help_has_one_line_for_every_target():
    lines = make("help").splitlines()
    told = dict(line.split(maxsplit=1) for line in lines)
    assert set(told) == TARGETS
    assert max(map(len, lines)) <= 120


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["test"], "/pytest -n 2"),
        (["test", "K=auction"], "--no-loadscope-reorder -k 'auction'"),
        (["test-all"], "--no-loadscope-reorder -m 'not browser and not engines'"),
        (["test-engines"], "/pytest -m engines"),
        (["test-browser"], "--no-loadscope-reorder -m browser tests/browser"),
        (
            ["experiment-precision"],
            "/mmfl compare experiments/precision/precision.toml --out runs/",
        ),
        (["experiment-faults", "ARGS=--seeds 0"], "/python -m experiments.faults.run --seeds 0"),
        (["bench-scale"], "-m benchmarks.scale.run --out benchmarks/scale/results/scale.json"),
        (["bench-speed"], "-m benchmarks.speed.run --out benchmarks/speed/results/speed.json"),
    ],
)
def test_a_target_runs_what_its_page_says(words, command):
    last = re.sub(r"\\\n\s*", "", make("-n", *words)).splitlines()[-1]
    assert command in " ".join(last.split())


def test_what_is_not_there_gets_a_sentence():
    for kind in KINDS:
        rule = MAKEFILE.split(f"\n{kind}-%:")[1].split("\n\n")[0]
        assert re.search(r"echo \"make: there is no \w+ '\$\*'; see 'make help'\"", rule)


@pytest.mark.parametrize("path", DRIVERS, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_a_driver_is_imported_as_a_part_of_its_package(path):
    """No folder is put into `sys.path` but by the peers, who run without this repository."""
    if "peers" not in path.parts and path.name != "injector.py":
        assert "sys.path" not in path.read_text()


def test_slow_tests_are_deselected_unless_they_are_asked_for(pytestconfig):
    assert any(line.startswith("slow:") for line in pytestconfig.getini("markers"))
    assert "not slow and not browser and not engines" in pytestconfig.getini("addopts")
    assert "-m 'not browser and not engines'" in MAKEFILE.split("\ntest-all:")[1].split("\n\n")[0]
