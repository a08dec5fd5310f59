"""The Flower engine over nodes in this process: same bits, bad replies, nodes that come and go."""

from __future__ import annotations

import dataclasses
import json
import warnings
from contextlib import closing

import numpy as np
import pytest
from flwr.app import Message, RecordDict

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError, InputError, MmflWarning
from mmfl.experiment import ENGINES
from support.bad_replies import BAD, rewrite
from support.experiments import write_small
from support.flower_grid import FakeGrid, open_flower

RECRUITED = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 2.0 }
"""


def small(count=4, **keys):
    keys = {"top": "rounds = 3", "clients": f"count = {count}"} | keys
    return Experiment.from_toml(write_small("a", "b", **keys))


def play(experiment, grid, between=None, **settings):
    """All records of a run on a fake Grid, and its last state."""
    records = []
    with closing(open_flower(experiment, grid, **settings)) as engine:
        for state, record in mmfl.rounds(experiment, engine=engine):  # noqa: B007
            records.append(record)
            if between is not None:
                between(record.round, grid)
    return records, state


@pytest.fixture(scope="module")
def reference():
    *_, (state, _) = mmfl.rounds(small())
    return state.fingerprint


@pytest.mark.parametrize(
    "more",
    [
        RECRUITED,
        RECRUITED + 'fraction = "work"',
        '[aggregator]\nkind = "median"',
        "[faults]\ndropout = 0.3\nclients = [{ does = 'duplicate', ids = [1] }]",
    ],
)
def test_parity_with_the_engine_that_runs_in_one_process(more):
    experiment = Experiment.from_toml(write_small("a", "b", top="rounds = 3") + more)
    *_, (expected, _) = mmfl.rounds(experiment)
    _, state = play(experiment, FakeGrid(4))
    assert state.fingerprint == expected.fingerprint


@pytest.mark.parametrize("metric", ["accuracy", "auc", "f1"])
def test_parity_where_clients_score_the_tasks(metric):
    text = write_small("a", "b", top='rounds = 3\nscore_source = "clients"')
    experiment = Experiment.from_toml(text.replace("[[tasks]]", f'[[tasks]]\nmetric = "{metric}"'))
    *_, (expected, _) = mmfl.rounds(experiment)
    records, state = play(experiment, FakeGrid(4))
    assert state.fingerprint == expected.fingerprint
    assert all(record.failures == () for record in records)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_reply_costs_one_client_its_turn(kind):
    reason, change = BAD[kind]
    experiment = small(top="rounds = 2")
    grid = FakeGrid(4, change={2: change})
    found, state = play(experiment, grid, timeout=0.3)
    assert len(found) == 2
    for record in found:
        assert [(f.address.client, f.reason, f.turn) for f in record.failures] == [
            (2, reason, True)
        ]
        assert sum(record.clients.values()) == 3
        assert len(record.failures[0].detail) < 400
        assert record.failures[0].detail.isprintable()
    assert all(np.isfinite(weights.flat).all() for weights in state.params.values())


@pytest.mark.parametrize(
    "change",
    [
        lambda message, reply: [reply, reply],
        lambda message, reply: [reply, _other(message, reply, "message 1")],
        lambda message, reply: [_other(message, reply, "what?"), reply],
    ],
    ids=["twice", "to an earlier message", "to no message"],
)
def test_what_a_node_sends_beyond_its_answer_is_a_duplicate(change, reference):
    grid = FakeGrid(4, change={2: change})
    found, state = play(small(), grid)
    failures = [failure for record in found for failure in record.failures]
    assert {(f.address.client, f.reason, f.turn) for f in failures} == {(2, "duplicate", False)}
    assert state.fingerprint == reference


def _other(message, reply, replied):
    again = Message(reply.content, reply_to=message)
    again.metadata.__dict__["_reply_to_message_id"] = replied
    return again


def test_a_node_cannot_answer_for_another_one(reference):
    def forge(message, reply):
        grid.change[1] = None
        other = Message(RecordDict(), reply_to=message)
        other.metadata.__dict__["_src_node_id"] = 101  # sent by node 101, about 102's message
        return [other, reply]

    grid = FakeGrid(4, change={2: forge})
    grid.change.pop(1, None)
    found, state = play(small(), grid)
    failures = [failure for record in found for failure in record.failures]
    assert {(f.address.client, f.reason, f.turn) for f in failures} == {(1, "duplicate", False)}
    assert state.fingerprint == reference


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rewrite(found=None), "malformed"),
        (rewrite(found=[3]), "malformed"),
        (rewrite(found=[]), "evaluation"),
        (rewrite(failed=["raised", "no"]), "raised"),
        (rewrite(found=[{"task": name, "examples": 10**9} for name in "ab"]), "evaluation"),
        (rewrite(found=[{"task": name, "failed": ["x", "y"]} for name in "ab"]), "raised"),
        (lambda message, reply: [], "timeout"),
    ],
)
def test_a_bad_evaluation_does_not_count(change, reason):
    def only_evaluations(message, reply):
        return change(message, reply) if message.metadata.message_type == "evaluate" else [reply]

    experiment = small(top='rounds = 2\nscore_source = "clients"')
    grid = FakeGrid(4, change={2: only_evaluations})
    found, _ = play(experiment, grid, timeout=0.3)
    failures = [failure for record in found for failure in record.failures]
    assert {(f.address.client, f.reason, f.turn) for f in failures} == {(2, reason, False)}
    assert all(np.isfinite(list(record.difficulty.values())).all() for record in found)


def test_nodes_join_and_leave_between_rounds():
    def between(t, grid):
        if t == 1:
            grid.leave(1)
        if t == 2:
            grid.join(1, node=500)
            grid.join(3)

    experiment = small(top="rounds = 4")
    found, _ = play(experiment, FakeGrid(3), between, nodes=3)
    assert [record.active for record in found] == [3, 2, 2, 4]  # who joins is asked first
    assert all(record.failures == () for record in found)


def test_who_leaves_an_auctions_winners_is_not_active():
    experiment = Experiment.from_toml(write_small("a", "b", top="rounds = 3") + RECRUITED)
    plain = [record for _, record in mmfl.rounds(experiment)]
    gone = int(plain[0].assignments.clients[0])
    found, _ = play(experiment, FakeGrid(4), lambda t, grid: t == 1 and grid.leave(gone))
    assert [record.active for record in found] == [plain[0].active] + 2 * [plain[0].active - 1]
    assert gone not in found[1].assignments.clients


def test_the_superlink_may_be_away_for_a_moment(reference):
    grid = FakeGrid(4)
    pull, failed = grid.pull_messages, []

    def away(ids):
        if len(failed) < 3:
            failed.append(ids)
            raise ConnectionError("away")
        return pull(ids)

    grid.pull_messages = away
    _found, state = play(small(), grid)
    assert state.fingerprint == reference
    assert len(failed) == 3


def test_a_superlink_that_stays_away_costs_turns_and_not_the_run():
    def between(t, grid):
        grid.online = t == 2

    found, _ = play(small(), FakeGrid(4), between, timeout=0.3)
    assert [len(record.failures) for record in found] == [0, 4, 0]
    assert {failure.reason for failure in found[1].failures} == {"dropout"}


def test_bids_of_nodes_decide_the_auction():
    experiment = Experiment.from_toml(write_small("a", "b", top="rounds = 1") + RECRUITED)
    dear = {"mmfl-bids": "a=50 b=inf"}
    with closing(open_flower(experiment, FakeGrid(4, configs={2: dear}))) as engine:
        assert engine.federation.bids[2].tolist() == [50, np.inf]
        assert np.isnan(engine.federation.bids[[0, 1, 3]]).all()
        ((_, record),) = mmfl.rounds(experiment, engine=engine)
    assert 2 not in record.assignments.clients


def load(task):
    """The own data of a node."""
    if task == "b":
        return None
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, 16)).astype(np.float32), rng.integers(4, size=7)


def test_a_node_trains_with_data_of_its_own():
    experiment = small()
    own = {"mmfl-data": f"{__name__}:load"}
    with closing(open_flower(experiment, FakeGrid(4, configs={1: own}))) as engine:
        assert engine.federation.sizes(np.arange(4))[1].tolist() == [7, 0]
        found = [record for _, record in mmfl.rounds(experiment, engine=engine)]
    turns = {(client, task): n for record in found for client, task, _, _, n, _ in record.turns}
    assert turns[1, "a"] == 7
    assert (1, "b") not in turns
    assert all(record.failures == () for record in found)


AFAR = """
rounds = 6
score_source = "clients"
[clients]
count = 4
[local]
lr = 0.01
batch_size = 8
[engine]
kind = "flower"
[[tasks]]
name = "near"
dataset = { kind = "at_nodes", shape = [5], classes = 3 }
metric = "f1"
[[tasks]]
name = "far"
dataset = { kind = "at_nodes", shape = [4] }
loss = "mse"
"""


def load_private(task):
    """What only a node has: clouds to tell apart, and a line to find."""
    rng = np.random.default_rng(1)
    if task == "near":
        y = rng.integers(3, size=90)
        return np.eye(3, 5, dtype=np.float32)[y] * 4 + rng.normal(size=(90, 5)), y
    x = rng.normal(size=(60, 4))
    return x, x @ np.array([[1.0], [2.0], [-1.0], [0.5]]), x[:70], x[:70].sum(axis=1)[:, None]


def test_a_server_without_data():
    own = {client: {"mmfl-data": f"{__name__}:load_private"} for client in range(4)}
    found, _ = play(Experiment.from_toml(AFAR), FakeGrid(4, configs=own))
    assert all(record.failures == () for record in found)
    assert found[-1].metric["near"] > 0.8
    assert all(np.isfinite([record.metric["far"] for record in found]))
    assert all(np.isfinite(list(record.difficulty.values())).all() for record in found)


def test_a_false_test_of_a_node_does_not_count():
    def lie_about_tests(message, reply):
        table = json.loads(message.content.config_records["mmfl"]["json"])
        if table.get("split") != "test":
            return [reply]
        found = [{"task": n, "examples": 1, "loss": 1.0, "metric": 1e9} for n in ("near", "far")]
        return rewrite(found=found)(message, reply)

    own = {client: {"mmfl-data": f"{__name__}:load_private"} for client in range(4)}
    grid = FakeGrid(4, configs=own, change={1: lie_about_tests})
    with pytest.warns(
        MmflWarning, match="the test of task '(near|far)' is without client 1: claims"
    ):
        found, _ = play(Experiment.from_toml(AFAR), grid)
    assert found[-1].metric["near"] > 0.8


def test_data_at_the_nodes_needs_nodes_that_have_it():
    experiment = Experiment.from_toml(AFAR)
    own = {client: {"mmfl-data": f"{__name__}:load_private"} for client in range(3)}
    with pytest.warns(MmflWarning, match="no data of task 'near': mmfl-data must name it"):
        found, _ = play(experiment, FakeGrid(4, configs=own), nodes=3)
    assert found[0].active == 3
    with pytest.raises(InputError, match="its data is at the nodes of a federation"):
        next(mmfl.rounds(dataclasses.replace(experiment, engine=ENGINES.parse("inline"))))
    with pytest.raises(InputError, match='set score_source = "clients"'):
        Experiment.from_toml(AFAR.replace('"clients"', '"server"', 1))


@pytest.mark.parametrize(
    ("client", "config", "said"),
    [
        (4, {}, "clients 0 to 3"),
        (0, {}, "client 0 is served by node 100 already"),
        (3, {"mmfl-data": "no_such_module:load"}, "no_such_module"),
        (3, {"mmfl-bids": "c=2"}, "for task 'c'"),
    ],
)
def test_a_node_that_makes_no_sense_is_left_out(client, config, said):
    experiment, grid = small(), FakeGrid(3)
    grid.join(client, node=900, **config)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MmflWarning)
        play(experiment, grid, nodes=3)
    told = [str(one.message) for one in caught if "900" in str(one.message)]
    assert len(told) == 1
    assert said in told[0]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "needs partition-id"),
        ({"partition-id": "0"}, "needs partition-id"),
        ({"partition-id": 0, "mmfl-dat": "x"}, "unknown key 'mmfl-dat'"),
        ({"partition-id": 0, "mmfl-data": "x"}, "module:function"),
        ({"partition-id": 0, "mmfl-bids": "a=-1"}, "got 'a=-1'"),
        ({"partition-id": 0, "mmfl-bids": "a"}, "got 'a'"),
        ({"partition-id": 0, "mmfl-allow-imports": 1}, "true or false"),
    ],
)
def test_a_mistake_in_a_nodes_configuration_is_one_sentence(config, said):
    from mmfl.engines.flower import NodeSettings

    with pytest.raises(InputError, match=said):
        NodeSettings.of(config)


def test_too_few_nodes_are_one_sentence():
    with pytest.raises(EngineError, match=r"only 2 clients of the 4 that engine\.nodes asks for"):
        open_flower(small(), FakeGrid(2), patience=0.1)


def test_imports_are_the_nodes_own_affair(tmp_path, monkeypatch):
    (tmp_path / "own_loss_of_test.py").write_text(
        "from torch.nn.functional import cross_entropy\n"
        "def loss(scores, y):\n    return cross_entropy(scores, y)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = write_small("a", top="rounds = 1") + '\nloss = "own_loss_of_test:loss"'
    experiment = Experiment.from_toml(text, allow_imports=True)
    free = {k: {"mmfl-allow-imports": True} for k in range(3)}
    with pytest.warns(MmflWarning, match="is left out"):
        found, _ = play(experiment, FakeGrid(4, configs=free), nodes=3)
    assert found[0].active == 3
    assert found[0].failures == ()


def test_it_cannot_be_opened_without_a_server_app():
    flower = ENGINES.parse("flower")
    with pytest.raises(InputError, match="mmfl flower up"):
        next(mmfl.rounds(dataclasses.replace(small(), engine=flower)))
