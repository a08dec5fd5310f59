"""Metrics of sums in the round loop: the same value as of the whole split; clients may lie."""

from __future__ import annotations

import dataclasses
import math
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

import mmfl
from mmfl import Experiment
from mmfl.data import Arrays
from mmfl.errors import MmflError
from mmfl.exchange import Evaluation
from mmfl.experiment import Local
from mmfl.faults import Faults, Misbehaving
from mmfl.loop import combine
from mmfl.objectives import F1, Perplexity
from support.crowd import TASKS, Crowd, mock, play
from support.helpers import one_line


def rare(classes):
    """Noisy data in which the last class is rare."""
    rng = np.random.default_rng(classes)
    y = np.minimum(rng.integers(0, classes + 2, 400) % (classes + 1), classes - 1)
    x = (np.eye(classes)[y] + 0.8 * rng.standard_normal((400, classes))).astype(np.float32)
    return x[:240], y[:240], x[240:], y[240:]


def two():
    return rare(2)


def four():
    return rare(4)


def answers():
    x_train, y_train, x_test, y_test = rare(2)
    return x_train, y_train.astype(np.float32), x_test, y_test.astype(np.float32)


TOML = """
rounds = 2
clients = 6
engine = "inline"
[evaluate]
batch_size = 9
[local]
epochs = 2
batch_size = 8
lr = 0.1
"""


def make(tasks, **changes) -> Experiment:
    """Tasks from name to (data, metric, loss), with tiny models on unscaled data."""
    made = Experiment.from_toml(TOML + '[[tasks]]\nname = "x"\ndataset = "x"')
    tasks = tuple(
        mmfl.Task(name=name, dataset=data, metric=metric, loss=loss, normalize="none",
                  model={"kind": "mlp", "hidden": [4]})
        for name, (data, metric, loss) in tasks.items()
    )  # fmt: skip
    return dataclasses.replace(made, tasks=tasks, **changes)


def predict(state, task, data):
    """The model's outputs for the test split."""
    model, params = task.model.build(data.shape, data.outputs), state.params[task.name]
    model.load_state_dict({name: torch.tensor(params[name]) for name in params})
    with torch.no_grad():
        return model.eval()(torch.from_numpy(data.x_test)).numpy()


def theirs(name, y, out):
    """What scikit-learn says of outputs."""
    if name == "perplexity":
        chance = np.exp(out - out.max(1, keepdims=True))
        return math.exp(sk.log_loss(y, chance / chance.sum(1, keepdims=True)))
    if name == "auc":
        return sk.roc_auc_score(y, out[:, 1] - out[:, 0])
    said = out[:, 0] > 0 if name == "answers" else out.argmax(1)
    if name == "balanced":
        return sk.balanced_accuracy_score(y, said)
    return sk.f1_score(y, said, average="macro" if name == "macro" else "binary")


def test_a_run_reports_what_scikit_learn_says_of_the_whole_test_split():
    tasks = {
        "f1": (two, "f1", "cross_entropy"),
        "auc": (two, "auc", "cross_entropy"),
        "answers": (answers, "f1", "binary_cross_entropy"),
        "macro": (four, "f1", "cross_entropy"),
        "balanced": (four, "balanced_accuracy", "cross_entropy"),
        "perplexity": (four, "perplexity", "cross_entropy"),
    }
    done = make(tasks, score_split="test")
    *_, (state, record) = mmfl.rounds(done)
    assert record.failures == ()
    found = {}
    for task in done.tasks:
        parts = ("x_train", "y_train", "x_test", "y_test")
        data = Arrays.check("it", dict(zip(parts, tasks[task.name][0](), strict=True)))
        found[task.name] = theirs(task.name, data.y_test, predict(state, task, data))
    assert record.metric == pytest.approx(found, abs=2e-3)
    assert {name: record.metric[name] for name in ("f1", "macro", "balanced")} == pytest.approx(
        {name: found[name] for name in ("f1", "macro", "balanced")}, abs=1e-12
    )
    assert record.difficulty == pytest.approx(
        {
            name: 1 - (1 / value if name == "perplexity" else value)
            for name, value in record.metric.items()
        }
    )


MIXED = {
    "f1": (two, "f1", "cross_entropy"),
    "auc": (two, {"kind": "auc", "bins": 300}, "cross_entropy"),
    "loss": (four, "perplexity", "cross_entropy"),
    "plain": (four, "accuracy", "cross_entropy"),
}


def test_workers_give_the_same_bits():
    inline = make(MIXED)
    with closing(Local(workers=2).open(inline, data_dir=None)) as engine:
        for source in ("server", "clients"):
            done = dataclasses.replace(inline, score_source=source)
            *_, (state, record) = mmfl.rounds(done)
            *_, (again, told) = mmfl.rounds(done, engine=engine)
            assert again.fingerprint == state.fingerprint
            assert told.metric == record.metric
            assert told.failures == record.failures == ()


def test_clients_score_by_the_metric_of_the_union_of_their_data():
    """The metric of all is not the mean of the clients' metrics."""
    counts = np.random.default_rng(0).integers(0, 4, (12, 1, 2, 3)).astype(np.float64)
    counts[..., 0, 2], counts[..., 1, 2] = counts[..., 1, 1], counts[..., 0, 1]
    sizes = counts[..., :2].sum(axis=(1, 2, 3)).astype(int)
    hits, missed, false = counts.sum(axis=0)[0, 1]

    def test(task, params, client):
        if client is None:
            return Evaluation(task, 4, 1.0, 0.0)
        if task != "a":
            return Evaluation(task, 5, 1.0, 4.0, client)
        return tallied(task, client, counts[client], int(sizes[client]))

    table = np.full((12, 3), 5)
    table[:, 0] = sizes
    _, record = play(pooled(test, table=table))[-1]
    assert record.failures == ()
    assert record.difficulty["a"] == pytest.approx(1 - 2 * hits / (2 * hits + missed + false))


# Clients that lie

HONEST = np.array([[[2.0, 1.0, 0.0], [2.0, 0.0, 1.0]]])
"""Of five examples: two of class 0 found, one missed, two of class 1 found."""


def tallied(task, client, tally, examples=5):
    return Evaluation(task, examples, 1.0, math.nan, client, tally=tally)


def pooled(test, table=None, **changes):
    """Task a is judged by F1, and clients score it."""
    engine = mock(test=test, changes={"score_source": "clients", "rounds": 1, **changes})
    tasks = (dataclasses.replace(engine.experiment.tasks[0], metric=F1()),)
    judged = dataclasses.replace(engine.experiment, tasks=tasks + engine.experiment.tasks[1:])
    table = np.full((12, 3), 5) if table is None else table
    return dataclasses.replace(
        engine, experiment=judged, federation=Crowd(table, TASKS, {"a": (1, 2, 3)})
    )


LIES = {
    "no tally": None,
    "a list": HONEST.tolist(),
    "another shape": HONEST.reshape(2, 3),
    "more classes": np.concatenate([HONEST, HONEST], axis=1),
    "float32": HONEST.astype(np.float32),
    "not a number": np.where(HONEST == 1, math.nan, HONEST),
    "infinite": np.where(HONEST == 1, math.inf, HONEST),
    "negative": np.subtract(HONEST, [[[0, 0, 0], [3, 0, -3]]]),
    "more hits": np.add(HONEST, [[[0, 0, 0], [1, 0, 0]]]),
    "ten times as many": 10 * HONEST,
    "none at all": 0 * HONEST,
    "absurdly many": np.full_like(HONEST, 1e308),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_impossible_sums_are_refused_and_cost_only_that_client(lie):
    def test(task, params, client):
        if task == "a" and client is not None:
            return tallied(task, client, lie if client == 3 else HONEST)
        return Evaluation(task, 5, 1.0, 4.0, client)

    [(_, record)] = play(pooled(test))
    assert [(f.address.client, f.reason, f.turn) for f in record.failures] == [
        (3, "evaluation", False)
    ]
    assert "\n" not in record.failures[0].detail
    assert record.difficulty == pytest.approx({"a": 1 - 4 / 5, "b": 0.2, "c": 0.2})


def test_absurd_claims_that_are_possible_are_added_up_without_a_warning():
    pieces = [Evaluation("a", 1, 1.0, math.nan, n, tally=np.array([1e308])) for n in range(3)]
    assert combine(pieces, {"a": Perplexity()})["a"].metric == math.inf


def test_a_tally_for_a_mean_is_refused():
    def test(task, params, client):
        tally = HONEST if task == "b" and client == 3 else None
        return Evaluation(task, 5, 1.0, 4.0, client, tally=tally)

    engine = mock(test=test, changes={"score_source": "clients", "rounds": 1})
    [(_, record)] = play(engine)
    assert [(f.address.task, f.address.client) for f in record.failures] == [("b", 3)]


@pytest.mark.parametrize(("metric", "outcome"), [(0.5, "refused"), (None, "accepted")])
def test_a_false_metric_falsifies_each_sum(metric, outcome):
    does = {"kind": "false_loss", "factor": 2.0, "metric": metric}
    faults = Faults(clients=(Misbehaving(does=does, ids=[3], tasks=["a"]),))

    def test(task, params, client):
        if task == "a" and client is not None:
            return tallied(task, client, HONEST)
        return Evaluation(task, 5, 1.0, 4.0, client)

    [(_, record)] = play(pooled(test, faults=faults))
    told = [f.outcome for f in record.faults if f.address.task == "a"]
    assert told[-1:] == [outcome]


def test_pieces_with_and_without_sums_add_up():
    pieces = [
        Evaluation("a", 3, 6.0, math.nan, tally=np.array([1.0])),
        Evaluation("b", 2, 1.0, 2.0),
        Evaluation("a", 1, 2.0, math.nan, tally=np.array([0.5])),
    ]
    found = combine(pieces, {"a": Perplexity(), "b": None})
    assert (found["b"].loss, found["b"].metric, found["b"].examples) == (0.5, 1.0, 2)
    assert (found["a"].loss, found["a"].examples) == (2.0, 4)
    assert found["a"].metric == pytest.approx(math.exp(1.5 / 4))
    assert pieces[0].tally.tolist() == [1.0]
    assert combine([Evaluation("a", 0, 0.0, 0.0, tally=np.zeros(1))], {"a": Perplexity()}) == {}


# A user's own


@dataclass(frozen=True)
class Found:
    """The share of examples of the last class that are found."""

    wrong: str = ""

    better: ClassVar[str] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data, loss):
        def count(outputs, targets):
            has = targets == data.classes - 1
            sums = torch.stack([(has & (outputs.argmax(1) == targets)).sum(), has.sum()])
            return {"on": sums[:1], "on list": sums.tolist()}.get(self.wrong, sums)

        return count

    def shape(self, data):
        odd = {"shape": 2, "shape 0": (0,), "shape text": ("a",), "shape ()": ()}
        return odd.get(self.wrong, (2,))

    def value(self, sums, examples):
        if self.wrong == "write":
            sums += 1
        hits, has = sums
        return "much" if self.wrong == "value" else hits / has if has else 0.0

    def possible(self, sums, examples):
        return 0 <= sums[0] <= sums[1] <= examples


def test_a_users_own_metric_of_sums_is_the_one_of_mmfl():
    tasks = {name: (two, metric, "cross_entropy") for name, metric in
             (("mine", Found()), ("ours", "recall"))}  # fmt: skip
    for source in ("server", "clients"):
        done = make(tasks, score_source=source, seed=3)
        ours = dataclasses.replace(done.tasks[1], name="mine")
        alone = [dataclasses.replace(done, tasks=(task,)) for task in (done.tasks[0], ours)]
        one, other = ([r for _, r in mmfl.rounds(e)] for e in alone)
        assert [r.failures for r in one] == [(), ()]
        assert [r.difficulty for r in one] == [r.difficulty for r in other]
        assert [r.metric for r in one] == [r.metric for r in other]


@dataclass(frozen=True)
class Shapeless:
    better: ClassVar[str] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data, loss):
        return lambda outputs, targets: targets.sum()

    def value(self, sums, examples):
        return 0.0


@dataclass(frozen=True)
class Near:
    """A mean over examples with a setting called value."""

    value: float = 0.5

    better: ClassVar[str] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def on(self, data, loss):
        return lambda outputs, targets: (outputs.argmax(1) == targets).float() * self.value


def test_a_setting_called_value_does_not_make_a_metric_of_sums():
    *_, (_, record) = mmfl.rounds(make({"a": (two, Near(), "cross_entropy")}))
    assert 0 < record.metric["a"] <= 0.5


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (Shapeless(), "has value(sums, examples), so it also needs shape(data)"),
        (Found("shape"), "must return a tuple of whole numbers >= 1, got 2"),
        (Found("shape 0"), "must return a tuple of whole numbers >= 1, got (0,)"),
        (Found("shape ()"), "must return a tuple of whole numbers >= 1, got ()"),
        (Found("shape text"), "must return a tuple of whole numbers >= 1, got ('a',)"),
        (Found("on"), "a tensor of its sums, of shape (2,), got shape (1,)"),
        (Found("on list"), "a tensor of its sums, of shape (2,), got [1, 1]"),
        (Found("value"), "must return a number, got 'much'"),
        (Found("write"), "failed: ValueError: "),
    ],
    ids=lambda each: getattr(each, "wrong", None),
)
def test_what_is_wrong_with_it_is_one_sentence(metric, words):
    broken = make({"a": (two, metric, "cross_entropy")})
    message = one_line(MmflError, lambda: list(mmfl.rounds(broken)))
    assert message.startswith("task 'a': ")
    assert words in message
