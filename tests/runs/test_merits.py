"""Where more must be better: a perplexity counts as its inverse, in a run and in reports of it."""

from __future__ import annotations

import pytest

import mmfl
from mmfl import Experiment
from mmfl.fairness import variance
from mmfl.objectives import describe_merits
from mmfl.report import Curves, Results, variants
from mmfl.report.figures import draw_comparison

TOML = """
rounds = 2
clients = 4
engine = "inline"
score_split = "test"
[[tasks]]
name = "words"
dataset = { kind = "synthetic", classes = 5, train = 80, test = 60 }
metric = "perplexity"
[[tasks]]
name = "dense"
dataset = { kind = "synthetic", classes = 3, train = 80, test = 60, noise = 3.0 }
[[tasks]]
name = "rare"
dataset = { kind = "synthetic", classes = 2, train = 80, test = 60, noise = 3.0 }
metric = "auc"
"""


def test_a_perplexity_is_reported_as_it_is_and_compared_as_its_inverse(tmp_path):
    run = mmfl.run(Experiment.from_toml(TOML), out=tmp_path / "run")
    last = {name: task["metric"] for name, task in run.tasks.items()}
    assert last["words"] > 1
    assert run.metrics["words"] == ("perplexity", "lower")
    merits = [1 / last["words"], last["dense"], last["rare"]]
    assert run.merits == pytest.approx(merits)
    assert run.worst == pytest.approx(min(merits))
    assert run.variance == pytest.approx(variance(merits))
    curves = Curves.load(run.folder)
    assert curves.kinds == ("perplexity", "accuracy", "auc")
    assert curves.metric[-1].tolist() == pytest.approx(list(last.values()))
    assert curves.merit[-1].tolist() == pytest.approx(merits)
    assert curves.worst[-1] == pytest.approx(min(merits))
    table = Results(variants({"it": {0: run}})).markdown()
    assert "Over all tasks, words counts as 1 / perplexity." in table
    figure = draw_comparison(variants({"it": {0: run}}))
    words = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    words += " ".join(text.get_text() for text in figure.texts)
    assert "1 / metric if that is perplexity" in " ".join(words.split())


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({}, ""),
        ({"a": ("accuracy", "higher"), "b": ("own:metric", "higher")}, ""),
        ({"a": ("mae", "lower"), "b": ("accuracy", "higher")}, "a counts as 1 - mae"),
        ({"a": ("", "lower")}, "a counts as 1 - its metric"),
        ({"a": ("own:metric", "lower")}, "a counts as 1 - its metric"),
        (
            {"a": ("mae", "lower"), "b": ("perplexity", "lower"), "c": ("mae", "lower")},
            "a and c count as 1 - mae; b counts as 1 / perplexity",
        ),
        (dict.fromkeys("abcd", ("mse", "lower")), "4 tasks count as 1 - mse"),
    ],
)
def test_a_rule_is_said_once_for_all_its_tasks(metrics, words):
    assert describe_merits(metrics) == words
