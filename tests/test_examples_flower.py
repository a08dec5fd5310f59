"""The Flower app that only asks mmfl who trains what, in this process."""

from __future__ import annotations

import ast
import importlib.util
from functools import partial
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from support.flower_grid import FakeGrid

EXAMPLE = Path(__file__).parent.parent / "examples/flower_two_models.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("flower_two_models", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def context(node):
    config = {"partition-id": node}
    return Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})


def test_the_harder_model_is_trained_more(example, capsys):
    grid = FakeGrid(0)
    huge = 2**63  # Flower's ids are unsigned
    for node in range(12):
        grid.nodes[huge + node] = partial(example.client, context=context(node))
    example.server(grid, context(1))
    rounds = [line.split(" ", 2)[2] for line in capsys.readouterr().out.splitlines()]
    assert len(rounds) == 5
    chosen = [ast.literal_eval(line[: line.index("}") + 1]) for line in rounds]
    later = [name for one in chosen[1:] for name in one.values()]
    assert len(later) == 48
    assert later.count("hard") > 36
    assert all(set(one) == set(grid.nodes) for one in chosen)
    last = ast.literal_eval(rounds[-1][rounds[-1].index("}") + 1 :].strip())
    assert last["easy"] < 0.25 < last["hard"] < 0.75
