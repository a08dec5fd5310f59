"""Rules about the code base itself that no linter knows."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

import mmfl
from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.cli import app
from mmfl.data import DATASETS, NORMALIZATIONS, PARTITIONS
from mmfl.experiment import BIDS, ENGINES
from mmfl.faults import MISBEHAVIOURS, SPEEDS
from mmfl.market import MECHANISMS
from mmfl.models import MODELS
from mmfl.objectives import LOSSES, METRICS, SCORES
from mmfl.optimizers import OPTIMIZERS

HOUSE = Path(__file__).parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(mmfl.__path__, "mmfl."))


def test_every_module_says_what_it_offers():
    for name in MODULES:
        if not name.endswith("__main__"):
            module = importlib.import_module(name)
            assert module.__doc__, name
            assert all(hasattr(module, offered) for offered in module.__all__), name
            assert len(set(module.__all__)) == len(module.__all__), name


def test_the_package_offers_what_it_says():
    assert mmfl.__all__ == sorted(mmfl.__all__, key=lambda n: (n.islower(), n))
    assert all(hasattr(mmfl, name) for name in mmfl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'roundz'"):
        _ = mmfl.roundz


def test_it_is_light_to_import():
    light = ("mmfl", "mmfl.allocate", "mmfl.aggregate", "mmfl.planning", "mmfl.runs.runner")
    light += ("mmfl.report", "mmfl.theory", "mmfl.cli", "mmfl.market")
    script = f"import sys, {', '.join(light)}; sys.exit('torch' in sys.modules)"
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
        *(AGGREGATORS, ALLOCATORS, ENGINES, LOSSES, METRICS, MODELS, NORMALIZATIONS, OPTIMIZERS),
        *(BIDS, MECHANISMS, MISBEHAVIOURS, PARTITIONS, SCORES, SPEEDS),
    )
    files = {"csv", "image_folder", "npz", "parquet"}
    kinds = [kind for family in families for kind in family.table]
    kinds += [*files, "reduced", "synthetic", "synthetic_regression"]
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []
    assert set(DATASETS.table) == {"at_nodes", "in_memory", "named", *kinds[-3:], *files}


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


@pytest.fixture(scope="module")
def sources() -> dict[Path, ast.Module]:
    """The syntax tree of every file of the library and of the examples."""
    paths = [p for folder in ("src", "examples") for p in (HOUSE / folder).glob("**/*.py")]
    return {path.relative_to(HOUSE): ast.parse(path.read_text()) for path in sorted(paths)}


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _is_unsafe(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        names = {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names = {f"{module}.{alias.name}" for alias in node.names} | {module}
        return bool(names & {"pickle", "marshal", "dill", "cloudpickle", "shelve", *UNSAFE})
    if isinstance(node, ast.Call):
        given = [word.value for word in node.keywords if word.arg in ("allow_pickle", "shell")]
        harmless = (isinstance(value, ast.Constant) and value.value is False for value in given)
        return _dotted(node.func) in UNSAFE or not all(harmless)
    return False


def test_nothing_that_is_read_can_run_code(sources):
    """No pickle, no torch.load, no eval; NumPy never unpickles; no shell.

    Workers unpickle objects in memory, which come from the process that has started them. Their
    digests are those of pickles, which are never read.
    """
    exempt = ("src/mmfl/config/in_memory.py", "src/mmfl/config/digests.py")
    lines = [
        f"{path}:{node.lineno}"
        for path, tree in sources.items()
        for node in ast.walk(tree)
        if _is_unsafe(node) and str(path) not in exempt
    ]
    assert lines == []


def test_what_could_run_code_is_found():
    for text in ("import pickle", "from torch import load", "eval(x)", "np.load(a, shell=True)"):
        assert any(map(_is_unsafe, ast.walk(ast.parse(text)))), text


def _find_options(command: click.Command) -> set[str]:
    """The long options of a command and of those inside it."""
    own = {name for option in command.params for name in option.opts if name.startswith("--")}
    return own.union(*(_find_options(one) for one in getattr(command, "commands", {}).values()))


def _find_texts(tree: ast.Module) -> list[str]:
    """All texts but docstrings, and but those of functions that make a command to type."""
    blocks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    aside = {ast.get_docstring(block, clean=False) for block in blocks}
    for block in blocks:
        if getattr(block, "name", "").endswith("_command"):
            aside |= {one.value for one in ast.walk(block) if isinstance(one, ast.Constant)}
        for one, after in zip(block.body, block.body[1:], strict=False):  # a value's docstring
            if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                aside |= {getattr(after.value, "value", None)}
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and text not in aside]


def test_only_the_command_line_speaks_of_its_options(sources):
    """A person who calls the library has no --out: `mmfl.cli.shared.streams` translates."""
    options = _find_options(typer.main.get_command(app))
    assert {"--out", "--data-dir", "--set", "--allow-imports", "--jobs", "--npm"} < options
    named = re.compile(rf"({'|'.join(map(re.escape, options))})(?![\w-])")
    assert named.search("name another with --data-dir or MMFL_DATA")
    found = [
        f"{path}: {text}"
        for path, tree in sources.items()
        if path.parts[0] == "src" and "cli" not in path.parts
        for text in _find_texts(tree)
        if named.search(text)
    ]
    assert found == []


def _reaches_into(own: str, tree: ast.Module) -> list[str]:
    """Imports of a private module of another package."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("mmfl."):
            continue
        parts = (node.module or "").split(".")[1:]
        if parts[0] in (own, "system"):  # what system offers are its modules
            continue
        if not (HOUSE / "src/mmfl").joinpath(*parts, "__init__.py").exists() and len(parts) > 1:
            found.append(node.module or "")
    return found


def test_a_package_is_used_through_what_it_offers(sources):
    for path, tree in sources.items():
        if path.parts[:2] == ("src", "mmfl") and len(path.parts) > 3:
            assert _reaches_into(path.parts[2], tree) == [], path


def test_no_module_sits_loose_at_the_root():
    loose = {path.stem for path in (HOUSE / "src/mmfl").glob("*.py")}
    assert loose == {"__init__", "__main__", "errors", "fairness", "rng"}
