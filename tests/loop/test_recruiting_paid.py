"""What recruited clients are paid, and how a run tells of it."""

from __future__ import annotations

import dataclasses
import json
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.engines import MockEngine
from mmfl.errors import StoreError
from mmfl.exchange import ClientFailure
from mmfl.experiment import RecruitmentSettings
from mmfl.loop import compute_payments, recruit
from mmfl.market import BudgetFair
from mmfl.runs import RunStore, stored_rounds
from support.bidders import hired, write_bids
from support.crowd import step
from support.helpers import one_line

SETTINGS = """
[recruitment]
mechanism = { kind = "max_min_fair", budget = 1.5 }
bids = { kind = "csv", path = "bids.csv" }
"""


def test_who_drops_out_is_paid_or_not():
    settings = RecruitmentSettings(
        BudgetFair(3.0), write_bids([[0, 0.1, 0.1, 0.1], [1, 0.2, 0.2, 0.2]])
    )
    for policy in ("paid", "unpaid"):
        engine = hired(dataclasses.replace(settings, dropouts=policy))
        found = recruit(engine.experiment.recruitment, engine.federation, engine.experiment.seed)
        assert found is not None
        given = np.zeros((12, 3), np.int64)
        given[0], given[1] = (4, 1, 0), (2, 0, 0)
        delivered = given.copy()
        delivered[0, 0], delivered[1, 0] = 1, 0
        paid = compute_payments(found, given, delivered)
        price = found.outcome.payment
        expected = price.copy()
        if policy == "unpaid":
            expected[0, 0], expected[1, 0] = price[0, 0] / 4, 0.0
        assert paid == pytest.approx(expected)
        assert paid[2:].sum() == 0


def flaky(job, params):
    """Client 1 never delivers task a."""
    if job.address.client == 1 and job.address.task == "a":
        return ClientFailure(job.address, "dropout", "gone")
    return step(job, params)


class Served(MockEngine):
    def prepare(self, experiment):
        """It is for the very experiment."""


@pytest.mark.parametrize("policy", ["paid", "unpaid"])
def test_a_run_stores_bids_awards_and_what_is_paid(policy):
    bids = write_bids([[0, 0.1, 0.1, 0.1], [1, 0.2, 0.2, ""]])
    settings = RecruitmentSettings(BudgetFair(3.0), bids, dropouts=policy)
    made = hired(settings, flaky)
    engine = Served(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})
    with stored_rounds(engine.experiment, "out", engine=engine) as todo:
        todo.start()
        assert todo.recruitment is not None
        assert todo.recruitment.paid is None
        records = [record for _, record in todo]
    run = Run.load("out")
    assert run.recruitment is not None
    assert run.recruitment.mechanism == "budget_fair"
    assert run.recruitment.budget == 3.0
    assert run.recruitment.tasks["a"].take_up == 2
    assert run.recruitment.tasks["c"].willing == 1
    assert run.recruitment.spent == pytest.approx(3.0)
    with closing(RunStore.open(Path("out"))) as store:
        awards = store.rows("SELECT task, client, bid, payment, paid FROM award")
        data = store.data()
    assert len(awards) == 5
    tried = sum((1, 0) in [(c, s) for c, s, _ in r.assignments] for r in records)
    lost = 0.5 if policy == "unpaid" and tried else 0.0
    assert run.recruitment.paid == pytest.approx(3.0 - lost)
    assert set(data) == {"recruitment.bids"}
    shown = json.loads(run.to_json())["recruitment"]
    assert shown["spent"] == pytest.approx(3.0)
    assert shown["tasks"]["b"]["price"] == pytest.approx(0.5)


def test_a_kept_run_is_refused_if_its_bids_have_changed(small_toml):
    text = small_toml + SETTINGS
    Path("bids.csv").write_text("client,dense,image\n" + "".join(f"{i},.1,.1\n" for i in range(9)))
    found = Experiment.from_toml(text)
    mmfl.compare({"x": found}, [0], "out")
    mmfl.compare({"x": found}, [0], "out")
    Path("bids.csv").write_text("client,dense,image\n0,.1,.1\n1,.2,.2\n")
    message = one_line(StoreError, lambda: mmfl.compare({"x": found}, [0], "out"))
    assert "holds a run that used different data for recruitment.bids; choose" in message


def test_without_an_auction_nothing_is_said_of_one(small):
    run = mmfl.run(small, "out")
    assert run.recruitment is None
    assert "recruitment" not in json.loads(run.to_json())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(iter(mmfl.rounds(small)))


def test_a_winner_without_data_is_paid_only_if_everybody_is():
    bids = write_bids([[0, 0.1, 0.1, 0.1], [1, 0.2, 0.2, 0.2]])
    table = np.full((12, 3), 5)
    table[0, 0] = 0
    for policy, share in (("paid", 1.0), ("unpaid", 0.0)):
        engine = hired(RecruitmentSettings(BudgetFair(3.0), bids, dropouts=policy), table=table)
        found = recruit(engine.experiment.recruitment, engine.federation, engine.experiment.seed)
        assert found is not None
        nothing = np.zeros((12, 3), np.int64)
        paid = compute_payments(found, nothing, nothing)
        assert paid[0, 0] == share * found.outcome.payment[0, 0]
        assert paid[1, 0] == found.outcome.payment[1, 0]


def test_the_auction_is_held_once_for_a_stored_run():
    settings = RecruitmentSettings(
        BudgetFair(3.0), write_bids([[1, 0.1, 0.1, 0.1], [3, 0.2, 0.2, 0.2]])
    )
    made = hired(settings)
    engine = Served(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})
    with stored_rounds(engine.experiment, "out", engine=engine) as todo:
        todo.start()
        write_bids([[7, 0.1, 0.1, 0.1], [8, 0.2, 0.2, 0.2]])  # too late
        trained = {client for _, record in todo for client in record.assignments.clients.tolist()}
    assert trained == {1, 3}
