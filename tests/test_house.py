"""Rules about the code base itself that no linter knows."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl
from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.data import DATASETS, NORMALIZATIONS, PARTITIONS
from mmfl.experiment import BIDS, ENGINES
from mmfl.faults import MISBEHAVIOURS, SPEEDS
from mmfl.market import MECHANISMS
from mmfl.models import MODELS
from mmfl.objectives import LOSSES, METRICS, SCORES

HOUSE = Path(__file__).parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(mmfl.__path__, "mmfl."))


@pytest.mark.parametrize("name", [m for m in MODULES if not m.endswith("__main__")])
def test_every_module_says_what_it_offers(name):
    module = importlib.import_module(name)
    assert module.__doc__
    names = module.__all__
    assert all(hasattr(module, n) for n in names)
    assert len(set(names)) == len(names)


def test_the_package_offers_what_it_says():
    assert mmfl.__all__ == sorted(mmfl.__all__, key=lambda n: (n.islower(), n))
    assert all(hasattr(mmfl, name) for name in mmfl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'roundz'"):
        _ = mmfl.roundz


@pytest.mark.parametrize(
    "module",
    [
        *("mmfl", "mmfl.allocate", "mmfl.aggregate", "mmfl.planning", "mmfl.runs.runner"),
        *("mmfl.report", "mmfl.theory", "mmfl.cli", "mmfl.market"),
    ],
)
def test_it_is_light_to_import(module):
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_files_are_short_and_there_is_one_short_round_loop():
    lengths = {
        p: len(p.read_text().splitlines())
        for p in HOUSE.glob("**/*.py")
        if not p.relative_to(HOUSE).parts[0].startswith(".venv")
    }
    assert max(lengths.values()) <= 400
    assert lengths[HOUSE / "src/mmfl/loop/loop.py"] < 150
    assert len((HOUSE / "examples/fair_mmfl_in_100_lines.py").read_text().splitlines()) <= 100


def test_every_kind_has_its_line_in_the_documentation():
    text = (HOUSE / "docs/reference/configuration.md").read_text()
    families = (
        *(AGGREGATORS, ALLOCATORS, ENGINES, LOSSES, METRICS, MODELS, NORMALIZATIONS),
        *(BIDS, MECHANISMS, MISBEHAVIOURS, PARTITIONS, SCORES, SPEEDS),
    )
    kinds = [kind for family in families for kind in family.table] + ["npz", "synthetic"]
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []
    assert set(DATASETS.table) == {"named", "npz", "synthetic"}


@pytest.mark.parametrize("line", ["1", "2", "3", "4-5", "6-11", "12-13", "14"])
def test_each_line_of_algorithm_1_is_found_in_the_loop(line):
    text = (HOUSE / "src/mmfl/loop/loop.py").read_text()
    assert re.search(rf"lines? {line}\b", text)


def test_the_plain_example_runs(tmp_path):
    script = HOUSE / "examples/fair_mmfl_in_100_lines.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"alpha 3: worst (\S+), mean (\S+)", done.stdout)
    assert found
    assert float(found[2]) > float(found[1]) > 0.5


UNSAFE = {
    *("eval", "exec", "compile", "__import__", "execfile"),
    *(f"{module}.{name}" for module in ("pickle", "marshal", "dill", "cloudpickle", "joblib")
      for name in ("load", "loads", "Unpickler")),
    *("torch.load", "torch.jit.load", "torch.package.PackageImporter", "shelve.open"),
    *("pandas.read_pickle", "yaml.load", "yaml.unsafe_load", "os.system", "os.popen"),
}  # fmt: skip
SOURCES = [p for folder in ("src", "examples") for p in sorted((HOUSE / folder).glob("**/*.py"))]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_nothing_that_is_read_can_run_code(path):
    """No pickle, no torch.load, no eval; NumPy never unpickles; no shell."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                names = {f"{module}.{alias.name}" for alias in node.names} | {module}
            assert not names & {"pickle", "marshal", "dill", "cloudpickle", "shelve", *UNSAFE}
        if isinstance(node, ast.Call):
            assert _dotted(node.func) not in UNSAFE
            given = {word.arg: word.value for word in node.keywords}
            for word in ("allow_pickle", "shell"):
                value = given.get(word)
                assert value is None or (isinstance(value, ast.Constant) and value.value is False)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOUSE).as_posix())
def test_only_the_command_line_speaks_of_the_option_for_a_folder(path):
    """A person who calls the library has no --out."""
    if "cli" in path.parts:
        return
    docstrings = [
        ast.get_docstring(node, clean=False)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert "--out" not in node.value or node.value in docstrings


def _reaches_into(path: Path) -> list[str]:
    """Imports of a private module of another package."""
    own = path.relative_to(HOUSE / "src/mmfl").parts[0]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("mmfl."):
            continue
        parts = (node.module or "").split(".")[1:]
        if parts[0] in (own, "system"):  # what system offers are its modules
            continue
        if not (HOUSE / "src/mmfl").joinpath(*parts, "__init__.py").exists() and len(parts) > 1:
            found.append(node.module or "")
    return found


@pytest.mark.parametrize(
    "path",
    sorted((HOUSE / "src/mmfl").glob("*/**/*.py")),
    ids=lambda path: path.relative_to(HOUSE / "src/mmfl").as_posix(),
)
def test_a_package_is_used_through_what_it_offers(path):
    assert _reaches_into(path) == []


def test_no_module_sits_loose_at_the_root():
    loose = {path.stem for path in (HOUSE / "src/mmfl").glob("*.py")}
    assert loose == {"__init__", "__main__", "errors", "fairness", "rng"}
