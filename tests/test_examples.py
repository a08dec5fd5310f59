"""The examples run as shown, and what they print is possible."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mmfl.report import Curves

EXAMPLES = Path(__file__).parent.parent / "examples"
NEEDS = {"wearables": "seglearn", "hospitals": "sklearn", "architectures": "mmfl"}
VARIANTS = {
    "wearables": ["uniform", "fed_fair"],
    "hospitals": ["uniform", "fed_fair-error", "fed_fair-distance"],
    "architectures": ["uniform", "fed_fair", "halving"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_prints_its_tables(name, tmp_path):
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: pip install 'mmfl[examples]'")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--rounds", "3", "--seeds", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "mean ± standard deviation over 2 seeds" in done.stdout
    assert "Each row minus uniform, paired by seed" in done.stdout
    assert len(re.findall(r"^.+: turns \{", done.stdout, flags=re.MULTILINE)) == len(VARIANTS[name])
    folder = tmp_path / "runs" / f"{name}-3-rounds"
    assert sorted(p.name for p in folder.iterdir() if p.is_dir()) == sorted(VARIANTS[name])
    for variant in VARIANTS[name]:
        for seed in (0, 1):
            run = Curves.load(folder / variant / f"seed-{seed}")
            assert run.rounds == 3
            assert run.turns.sum() > 0
            assert ((run.metric[-1] > -1) & (run.metric[-1] <= 1)).all()


def test_what_an_example_taught_is_dated():
    for name in NEEDS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert re.search(r"Results \(20\d\d-\d\d-\d\d, .*seeds 0 to \d", text)
        assert len(text.splitlines()) < 120
        assert f"({name}.py)" in (EXAMPLES / "README.md").read_text()
