"""Training is right: against a plain torch loop, to the bit, and against Flower's aggregation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import mmfl
from mmfl import Experiment
from mmfl.engines import InlineEngine
from mmfl.exchange import CHUNK, ClientUpdate, LocalWork
from mmfl.experiment import Inline, simulate
from mmfl.rng import stream
from mmfl.train.reference import batches

ONE_TASK = """
rounds = 3
seed = 5
kernel = "reference"
[clients]
count = 11
[local]
epochs = 2
batch_size = 8
lr = 0.05
[engine]
kind = "inline"
[[tasks]]
name = "only"
dataset = { kind = "synthetic", classes = 5, shape = [6, 6], train = 330, test = 60 }
model = { kind = "cnn", channels = [3, 5], dense = 9, dropout = 0.25 }
partition = { kind = "iid", points = [18, 23] }
"""  # no batch of one: the bits of MKL's matrix x vector depend on where the matrix lies in memory


def plain_fed_avg(e: Experiment) -> dict[str, np.ndarray]:
    """FedAvg in torch, with the experiment's initial weights, shards and batch order."""
    task, local = e.tasks[0], e.training("only")
    data = task.dataset.load(None)
    shards = simulate(e, {"only": data})
    torch.manual_seed(stream(e.seed, "initial", "only").torch_seed())
    model = task.model.build((1, 6, 6), 5)
    w = {name: value.clone() for name, value in model.state_dict().items()}
    for t in range(1, e.rounds + 1):
        sums = []
        for k in range(e.clients.count):
            rows = shards.shard("only", k)
            x, y = torch.tensor(data.x_train[rows]), torch.tensor(data.y_train[rows])
            rng = stream(e.seed, "train", t, "only", k)
            torch.manual_seed(rng.torch_seed())
            model.load_state_dict(w)
            model.train()
            sgd = torch.optim.SGD(model.parameters(), local.lr.rate(0), 0.9, weight_decay=1e-4)
            for _ in range(local.epochs):
                order = torch.tensor(rng.permutation(len(rows)))
                for batch in order.split(local.batch_size):
                    sgd.zero_grad()
                    images = x[batch].unsqueeze(1).to(memory_format=torch.channels_last)
                    functional.cross_entropy(model(images), y[batch]).backward()
                    sgd.step()
            if k % CHUNK == 0:
                sums.append(
                    {name: torch.zeros_like(v, dtype=torch.float64) for name, v in w.items()}
                )
            for name, value in model.state_dict().items():
                sums[-1][name] += (value - w[name]).double() * len(rows)
        examples = sum(len(shards.shard("only", k)) for k in range(e.clients.count))
        w = {n: (sum(s[n] for s in sums) / examples + w[n].double()).float() for n in w}
    return {name: value.numpy() for name, value in w.items()}


@pytest.fixture
def single_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)


def test_three_rounds_equal_a_plain_torch_loop_to_the_bit(single_thread):
    experiment = Experiment.from_toml(ONE_TASK)
    *_, (state, _) = mmfl.rounds(experiment)
    expected = plain_fed_avg(experiment)
    ours = state.params["only"]
    assert list(ours) == list(expected)
    for name, value in expected.items():
        assert np.array_equal(ours[name], value), name


class Watched:
    """An engine that keeps the updates of the last round."""

    merges = False

    def __init__(self, engine: InlineEngine) -> None:
        self.federation, self.prepare = engine.federation, engine.prepare
        self.initial, self.evaluate, self.close = engine.initial, engine.evaluate, engine.close
        self._engine = engine
        self.updates: list[ClientUpdate] = []

    def train(self, jobs, params, *, merge=False):
        self.updates = []
        for update in self._engine.train(jobs, params, merge=merge):
            self.updates.append(update)
            yield update


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Flower's own imports
def test_the_mean_agrees_with_flowers_fed_avg_on_the_same_updates():
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server.strategy import FedAvg

    experiment = Experiment.from_toml(ONE_TASK)
    engine = Watched(Inline().open(experiment, data_dir=None))
    before = engine.initial()["only"]
    for state, _ in mmfl.rounds(experiment, engine=engine):
        replies = [
            FitRes(
                status=Status(Code.OK, ""),
                parameters=ndarrays_to_parameters([before[n] + u.delta[n] for n in before]),
                num_examples=u.examples,
                metrics={},
            )
            for u in engine.updates
        ]
        flower, _ = FedAvg().aggregate_fit(state.round, [(None, reply) for reply in replies], [])
        after = state.params["only"]
        for name, value in zip(after, parameters_to_ndarrays(flower), strict=True):
            assert np.abs(after[name] - value).max() < 1e-6
        before = after
    assert len(engine.updates) == 11


def test_bf16_trains_and_differs_from_float32_only_a_little():
    experiment = Experiment.from_toml(ONE_TASK)
    full, half = (
        [s for s, _ in mmfl.rounds(replace(experiment, precision=p))][-1].params["only"].flat
        for p in ("float32", "bf16")
    )
    assert not np.array_equal(full, half)
    assert np.linalg.norm(full - half) < 0.2 * np.linalg.norm(full)


@pytest.mark.parametrize(
    ("size", "work", "lengths"),
    [
        (10, LocalWork(batch_size=4, lr=1, epochs=2), [4, 4, 2, 4, 4, 2]),
        (10, LocalWork(batch_size=4, lr=1, epochs=2, remainder="drop"), [4, 4, 4, 4]),
        (3, LocalWork(batch_size=4, lr=1, epochs=2, remainder="drop"), [3, 3]),
        (10, LocalWork(batch_size=4, lr=1, steps=5), [4, 4, 2, 4, 4]),
        (10, LocalWork(batch_size=4, lr=1, steps=1), [4]),
        (8, LocalWork(batch_size=4, lr=1, steps=3), [4, 4, 4]),
    ],
)
def test_batches_have_defined_lengths_and_a_pass_repeats_no_row(size, work, lengths):
    found = list(batches(size, work, rng=stream(0, "batches")))
    assert [len(batch) for batch in found] == lengths
    one_pass = np.concatenate(found[: max(1, size // work.batch_size)])
    assert len(set(one_pass.tolist())) == len(one_pass)


@pytest.mark.parametrize(
    ("work", "share", "steps"),
    [
        ({"epochs": 2}, 0.5, 7),  # of 14: two passes of 7 batches
        ({"epochs": 2, "remainder": "drop"}, 0.5, 6),
        ({"steps": 9}, 1 / 3, 3),
        ({"steps": 9}, 0.01, 1),  # at least one
        ({"epochs": 1}, 0.999, 7),
    ],
)
def test_a_client_recruited_in_part_makes_that_share_of_the_steps(work, share, steps):
    def rows(share):
        made = LocalWork(10, 0.1, **work, share=share)
        return [batch.tolist() for batch in batches(65, made, rng=stream(0, "share"))]

    whole = rows(1.0)
    assert rows(share) == whole[:steps]


WORK = st.builds(
    LocalWork,
    batch_size=st.integers(1, 9),
    lr=st.just(0.1),
    remainder=st.sampled_from(["keep", "drop"]),
    share=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
)
AMOUNT = st.one_of(
    st.builds(dict, epochs=st.integers(1, 4)), st.builds(dict, steps=st.integers(1, 30))
)


@given(st.integers(1, 40), WORK, AMOUNT)
def test_how_much_a_turn_will_do_is_known_before(size, work, amount):
    work = replace(work, **amount)
    made = list(batches(size, work, rng=stream(0, "x")))
    assert work.steps_with(size) == len(made)
    assert work.samples_with(size) == sum(map(len, made))
