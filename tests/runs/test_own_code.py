"""A user's module that is edited: what was made with the old code is told from what is new."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import warnings
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.comparison import Comparison, compare
from mmfl.errors import EngineError, MmflWarning
from mmfl.runs import stored_rounds
from support.experiments import write_small
from support.helpers import one_line
from support.rewriting import rewrite
from support.warm import children

MODULE = "softmax_of_a_user"
OLD = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Softmax:
    def allocate(self, view, state, *, rng):
        return [(client, 0, 1.0) for client in view.clients.tolist()], state

def share(outputs, targets):
    return (outputs.argmax(1) == targets).float()
"""
NEW = f"{OLD}\n# edited\n"
TEXT = write_small(top="rounds = 2", local="steps = 1")
WORKERS = ("engine={kind='local', workers=1}", f"tasks.a.metric={MODULE}:share")
"""The metric is computed in a worker, which imports the module for itself."""

EDITED = (
    f"module {MODULE!r} was edited since this process imported it; start again in a new process"
)


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    Path(f"{MODULE}.py").write_text(OLD)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it knows a file by its second
    yield
    sys.modules.pop(MODULE, None)


def load(*sets: str) -> Experiment:
    """The experiment, as a process has it that has just started."""
    sys.modules.pop(MODULE, None)
    importlib.invalidate_caches()
    own = [f"allocator={MODULE}:Softmax", "checkpoints.rounds=1", *sets]
    return Experiment.from_toml(TEXT, sets=own, allow_imports=True)


def short(code: str) -> str:
    return sha256(code.encode()).hexdigest()[:12]


def edit() -> None:
    Path(f"{MODULE}.py").write_text(NEW)


def test_the_hash_of_a_module_that_the_experiment_names_is_recorded():
    run = mmfl.run(load(), "run")
    stored = json.loads(Path("run/environment.json").read_text())
    assert stored["code"] == {MODULE: sha256(OLD.encode()).hexdigest()}
    assert run.made_with[f"code of {MODULE}"] == short(OLD)
    edit()
    again = mmfl.run(load(), "again")
    assert again.made_with[f"code of {MODULE}"] == short(NEW)
    assert again.fingerprint == run.fingerprint


def test_a_process_that_imported_a_module_before_the_edit_runs_the_old_code():
    experiment = load()
    mmfl.run(experiment, "run")
    edit()
    assert mmfl.run(experiment, "again").made_with[f"code of {MODULE}"] == short(OLD)
    importlib.reload(sys.modules[MODULE])
    assert mmfl.run(experiment, "new").made_with[f"code of {MODULE}"] == short(NEW)


@pytest.mark.parametrize("given", ["path", "object"])
def test_a_module_that_is_edited_before_the_first_run_is_recorded_as_it_was_imported(given):
    experiment = load()
    if given == "object":
        experiment = replace(Experiment.from_toml(TEXT), allocator=experiment.allocator)
    edit()
    assert mmfl.run(experiment, "run").made_with[f"code of {MODULE}"] == short(OLD)
    Path(f"{MODULE}.py").unlink()
    assert mmfl.run(experiment, "removed").made_with[f"code of {MODULE}"] == short(OLD)


def test_a_class_that_a_package_passes_on_is_hashed_where_it_is_defined():
    name = "package_of_a_user"
    Path(name).mkdir()
    Path(name, "__init__.py").write_text(f"from {name}.inner import Softmax")
    Path(name, "inner.py").write_text(OLD)
    experiment = load(f"allocator={name}:Softmax")
    Path(name, "inner.py").write_text(NEW)
    run = mmfl.run(experiment, "run")
    assert run.made_with[f"code of {name}.inner"] == short(OLD)
    for module in (name, f"{name}.inner"):
        del sys.modules[module]


def test_workers_that_would_import_edited_code_are_refused():
    experiment = load(*WORKERS)
    assert mmfl.run(experiment, "run").made_with[f"code of {MODULE}"] == short(OLD)
    edit()
    assert one_line(EngineError, lambda: mmfl.run(experiment, "again")) == EDITED
    assert not Path("again").exists()
    assert mmfl.run(load(*WORKERS), "again").made_with[f"code of {MODULE}"] == short(NEW)


def test_a_worker_that_is_replaced_after_an_edit_ends_the_run_which_can_be_resumed():
    before = set(children())
    with stored_rounds(load(*WORKERS), "run") as rounds:
        next(rounds)
        edit()
        for pid in set(children()) - before:
            os.kill(int(pid), signal.SIGKILL)
        assert one_line(EngineError, lambda: list(rounds)) == EDITED
    with pytest.warns(MmflWarning, match="bits may differ"):
        run = mmfl.run(load(*WORKERS), "run", resume=True)
    assert (run.status, run.made_with[f"code of {MODULE}"]) == ("finished", short(NEW))
    assert short(OLD) in run.inexact


def test_the_processes_of_a_comparison_refuse_edited_code_before_any_run():
    variants = {"x": load()}
    edit()
    with pytest.raises(EngineError, match=EDITED):
        compare(variants, [0, 1], "out", jobs=2)
    assert not Path("out").exists()
    assert len(compare({"x": load()}, [0, 1], "out", jobs=2)["x"]) == 2


@pytest.mark.parametrize("lost", ["__main__", "no file"])
def test_what_has_no_file_is_left_out(monkeypatch, lost):
    experiment = load()
    if lost == "__main__":
        module = sys.modules["__main__"]
        monkeypatch.setattr(type(experiment.allocator), "__module__", "__main__")
        own = type(experiment.allocator)
        monkeypatch.setattr(module, "Softmax", own, raising=False)
    else:
        monkeypatch.delattr(sys.modules[MODULE], "__file__")
    mmfl.run(experiment, "run")
    assert json.loads(Path("run/environment.json").read_text())["code"] == {}


def test_resumed_with_edited_code_it_is_warned_of_and_marked():
    with stored_rounds(load(), "run") as rounds:
        next(rounds)
    edit()
    with pytest.warns(MmflWarning, match="its bits may differ") as caught:
        run = mmfl.run(load(), "run", resume=True)
    assert len(caught) == 1
    name = f"code of {MODULE}"
    assert run.inexact == (
        f"started with {name} {short(OLD)}, resumed after round 1 with {name} {short(NEW)}"
    )


def test_a_second_edit_is_named_as_well():
    other = "metric_of_a_user"
    Path(f"{other}.py").write_text(OLD)
    own = f"tasks.a.metric={other}:share"
    mmfl.run(load(own), "run")
    edit()
    with pytest.warns(MmflWarning, match="bits may differ"):
        mmfl.run(load(own, "rounds=3"), "run", resume=True)
    Path(f"{other}.py").write_text(NEW)
    del sys.modules[other]
    with pytest.warns(MmflWarning, match=f"round 3 with code of {other} {short(NEW)}:"):
        run = mmfl.run(load(own, "rounds=4"), "run", resume=True)
    del sys.modules[other]
    first, second = (f"code of {name}" for name in (MODULE, other))
    assert run.inexact == (
        f"started with {first} {short(OLD)} and {second} {short(OLD)}, resumed after round 2 with "
        f"{first} {short(NEW)}, resumed after round 3 with {second} {short(NEW)}"
    )


def test_finished_runs_of_edited_code_are_kept_with_a_warning_that_names_the_module():
    first = compare({"x": load()}, [0, 1], "out")
    edit()
    with pytest.warns(MmflWarning) as caught:
        plan = Comparison({"x": load()}, [0, 1], "out")
    start = f"'out': the code of {MODULE} has changed since"
    advice = "to run the new code, choose another folder"
    assert [str(warning.message) for warning in caught] == [f"{start} 2 runs finished; {advice}"]
    assert plan.results() == first
    with pytest.warns(MmflWarning) as caught:
        more = compare({"x": load()}, [0, 2], "out")["x"]
    assert [str(warning.message) for warning in caught] == [f"{start} 1 run finished; {advice}"]
    made = [more[seed].made_with[f"code of {MODULE}"] for seed in (0, 2)]
    assert made == [short(OLD), short(NEW)]


def test_runs_of_an_older_version_say_nothing_of_their_code():
    compare({"x": load()}, [0], "out")
    path = Path("out/x/seed-0/environment.json")
    table = json.loads(path.read_text())
    del table["code"]
    rewrite("out/x/seed-0", "environment.json", json.dumps(table))
    assert f"code of {MODULE}" not in Run.load("out/x/seed-0").made_with
    edit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(compare({"x": load()}, [0, 1], "out")["x"]) == 2
