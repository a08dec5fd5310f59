"""The auction before round one: who may train what after it, and what is paid."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.config import component
from mmfl.errors import ConfigError, InputError, MmflWarning
from mmfl.exchange import Evaluation
from mmfl.experiment import RecruitmentSettings
from mmfl.loop import recruit
from mmfl.market import BudgetFair, GMMFair, MaxMinFair, Recruitment, ValueThreshold, max_min_fair
from mmfl.market.bids_io import Csv, UniformBids
from support.bidders import hired, write_bids
from support.crowd import TASKS, experiment, mock, play, step
from support.helpers import one_line

SETTINGS = """
[recruitment]
mechanism = { kind = "max_min_fair", budget = 1.5 }
bids = { kind = "uniform" }
"""


def turns(engine) -> set[tuple[int, str]]:
    """Who trained what, in any round."""
    return {
        (client, record.tasks[task])
        for _, record in play(engine)
        for client, task, _ in record.assignments
    }


def test_only_winners_that_hold_data_train():
    bids = write_bids([[0, 0.1, 0.2, 0.1], [3, 0.1, 0.1, ""], [5, "", 0.3, 0.1], [7, 9, 9, 9]])
    table = np.full((12, 3), 5)
    table[0, 1] = 0  # client 0 wins task b, and holds nothing of it
    engine = hired(RecruitmentSettings(BudgetFair(3.0), bids), table=table)
    seen = turns(engine)
    assert {client for client, _ in seen} == {0, 3, 5}
    assert (0, "b") not in seen
    assert (3, "c") not in seen
    assert (5, "a") not in seen
    assert seen == {(0, "a"), (0, "c"), (3, "a"), (3, "b"), (5, "b"), (5, "c")}


def test_the_active_rate_is_of_those_that_may_train():
    bids = write_bids([[i, 0.1, 0.1, 0.1] for i in range(8)])
    clients = dataclasses.replace(experiment().clients, active=0.5)
    settings = RecruitmentSettings(ValueThreshold(1.0), bids)
    engine = mock(changes={"recruitment": settings, "clients": clients})
    for _, record in play(engine):
        assert record.active == 4
        assert record.assignments.clients.max() < 8


def test_a_fractional_winner_is_available_with_its_probability():
    # One task lacks money for its second client, which joins in part.
    settings = RecruitmentSettings(
        MaxMinFair(3.0), write_bids([[0, 0.1, 0.1, 0.1], [1, 0.1, 0.1, 9.0]])
    )
    engine = hired(settings)
    population = recruit(engine.experiment.recruitment, engine.federation, engine.experiment.seed)
    assert population is not None
    x = population.outcome.participation[1, 2]
    assert 0.05 < x < 0.95
    places = np.arange(2)
    often = [population.available(t, places, places)[1, 2] for t in range(3000)]
    assert np.mean(often) == pytest.approx(x, abs=0.03)
    assert all(population.available(t, places, places)[0].all() for t in range(20))
    again = [population.available(t, places, places)[1, 2] for t in range(3000)]
    assert often == again


def test_or_always_with_that_share_of_the_work():
    shares = {}

    def noting(job, params):
        shares[job.address.client, job.address.task] = job.work.share
        return step(job, params)

    settings = RecruitmentSettings(
        MaxMinFair(3.0), write_bids([[0, 0.1, 0.1, 0.1], [1, 0.1, 0.1, 9.0]]), fraction="work"
    )
    engine = hired(settings, noting, table=np.full((12, 3), 5))
    engine = dataclasses.replace(
        engine, experiment=dataclasses.replace(engine.experiment, rounds=40)
    )
    play(engine)
    x = max_min_fair([[0.1, 0.1, 0.1], [0.1, 0.1, 9.0]], 3.0).participation
    assert shares.pop((1, "c")) == pytest.approx(x[1, 2])
    assert set(shares.values()) == {1.0}


@pytest.mark.parametrize("fraction", ["probability", "work"])
def test_a_recruited_run_has_the_same_bits_on_any_engine(small_toml, fraction):
    text = small_toml + SETTINGS
    sets = [f"recruitment.fraction={fraction}", "clients.active=1"]
    inline = Experiment.from_toml(text, sets=sets)
    runs = {}
    for engine in ("inline", "local"):
        found = Experiment.from_toml(text, sets=[*sets, f"engine.kind={engine}"])
        *_, (state, _) = mmfl.rounds(found)
        runs[engine] = state.fingerprint
    assert runs["inline"] == runs["local"]
    *_, (state, _) = mmfl.rounds(dataclasses.replace(inline, recruitment=None))
    assert state.fingerprint != runs["inline"]


def test_clients_that_are_not_recruited_do_not_score_either():
    bids = write_bids([[2, 0.1, 0.1, 0.1], [4, 0.1, 0.1, ""]])
    heard = set()

    def test(task, params, client):
        heard.add((client, task))
        return Evaluation(task, 2, 1.0, 1.0, client)

    settings = RecruitmentSettings(ValueThreshold(1.0), bids)
    play(mock(changes={"recruitment": settings, "score_source": "clients"}, test=test))
    scored = {pair for pair in heard if pair[0] is not None}
    assert scored == {(2, "a"), (2, "b"), (2, "c"), (4, "a"), (4, "b")}


# A task that nobody may train


def test_a_task_that_recruits_nobody_stops_the_run_before_it_begins():
    settings = RecruitmentSettings(
        BudgetFair(3.0), write_bids([[0, 0.1, 0.1, ""], [1, 0.1, 0.1, 5.0]])
    )
    message = one_line(InputError, lambda: play(hired(settings)))
    assert "task 'c': nobody was recruited for it" in message
    assert 'recruitment.empty = "leave_out"' in message


def test_it_says_if_nobody_is_willing_or_no_winner_holds_data():
    settings = RecruitmentSettings(BudgetFair(3.0), write_bids([[0, 0.1, 0.1, ""]]))
    assert "nobody is willing" in one_line(InputError, lambda: play(hired(settings)))
    settings = RecruitmentSettings(BudgetFair(3.0), write_bids([[0, 0.1, 0.1, 0.1]]))
    table = np.full((12, 3), 5)
    table[0, 1] = 0
    message = one_line(InputError, lambda: play(hired(settings, table=table)))
    assert "task 'b': none of the clients recruited for it holds data for it" in message


def test_or_is_left_out_with_a_warning_and_keeps_its_first_model():
    bids = write_bids([[0, 0.1, 0.1, ""], [1, 0.1, 0.1, ""]])
    settings = RecruitmentSettings(BudgetFair(3.0), bids, empty="leave_out")
    with pytest.warns(MmflWarning, match="recruited no client that can train c; left out"):
        history = play(hired(settings))
    state, record = history[-1]
    assert state.versions["c"] == 0
    assert state.params["c"].flat.tolist() == [0.0, 0.0]
    assert record.metric["c"] == 0.5  # it is measured all the same
    assert record.clients["a"] + record.clients["b"] == 2


def test_all_tasks_cannot_be_left_out():
    settings = RecruitmentSettings(BudgetFair(0.01), write_bids([[0, 1, 1, 1]]), empty="leave_out")
    message = one_line(InputError, lambda: play(hired(settings)))
    assert message == "the auction recruited no client that can train any of the tasks"


@pytest.mark.parametrize(
    "mechanism", [MaxMinFair(2.0), MaxMinFair(2.0, fractional=False), GMMFair(2.0)]
)
def test_a_task_that_is_left_out_does_not_hold_up_the_others(mechanism):
    bids = write_bids([[0, 0.1, 0.3, ""], [1, 0.1, 0.3, ""], [2, 0.1, 9.0, ""]])
    engine = hired(RecruitmentSettings(mechanism, bids, empty="leave_out"))
    found = recruit(engine.experiment.recruitment, engine.federation, engine.experiment.seed)
    assert found is not None
    assert found.left_out == ("c",)
    two = mechanism.recruit([[0.1, 0.3], [0.1, 0.3], [0.1, 9.0]])
    assert found.outcome.participation[:3, :2] == pytest.approx(two.participation)
    assert found.outcome.take_up[:2] == pytest.approx(two.take_up)
    assert found.outcome.take_up[2] == 0
    assert found.outcome.bids.tasks == ("a", "b", "c")
    assert [len(rows) for rows in found.outcome.winners][2] == 0


def test_of_several_empty_tasks_the_dearest_goes_first():
    bids = write_bids([[0, 5.0, 0.4, 4.0]])
    engine = hired(RecruitmentSettings(MaxMinFair(1.0, fractional=False), bids, empty="leave_out"))
    found = recruit(engine.experiment.recruitment, engine.federation, engine.experiment.seed)
    assert found is not None
    assert found.left_out == ("a", "c")
    assert found.outcome.take_up.tolist() == [0, 1, 0]


def test_advice_fits_the_case():
    def said(mechanism, rows):
        return one_line(
            InputError, lambda: play(hired(RecruitmentSettings(mechanism, write_bids(rows))))
        )

    assert "raise the budget, or recruitment.empty" in said(BudgetFair(3.0), [[0, 0.1, 0.1, 5.0]])
    assert "raise the threshold, or" in said(ValueThreshold(1.0), [[0, 0.1, 0.1, 5.0]])
    assert "raise" not in said(BudgetFair(3.0), [[0, 0.1, 0.1, ""]])


def test_a_state_is_not_continued_with_other_bids():
    settings = RecruitmentSettings(
        BudgetFair(3.0), write_bids([[0, 0.1, 0.1, 0.1], [1, 0.1, 0.1, 0.1]])
    )
    engine = hired(settings)
    state, _ = next(iter(mmfl.rounds(engine.experiment, engine=engine)))
    again = dataclasses.replace(engine.experiment)
    assert len(list(mmfl.rounds(again, engine=engine, state=state))) == 3
    write_bids([[0, 0.1, 0.1, 0.1], [2, 0.1, 0.1, 0.1]])
    again = dataclasses.replace(engine.experiment)
    with pytest.raises(InputError, match="belongs to another experiment"):
        next(iter(mmfl.rounds(again, engine=engine, state=state)))


# Files of bids


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client,a,b\n0,1,1\n", "bids.csv: has no column for task 'c'"),
        ("client,a,b,c,d\n0,1,1,1,1\n", "bids.csv: column 'd' is not a task; known: a, b, c"),
        ("client,a,b,c\n12,1,1,1\n", "client 12 is not in the experiment (0 to 11)"),
        ("client,a,b,c\nanna,1,1,1\n", "client 'anna' is not in the experiment"),
        ("client,a,b,c\n0,1,1,1\nx3,1,1,1\n", "client 'x3' is not in the experiment"),
        ("client,a,b,c\n", "bids.csv: has no bids; after line 1 there must be a line"),
        ("a,b,c\n1,1,1\n", "has 1 rows for 12 clients; a first column 'client'"),
        ("client,a,b,c\n0,1,x,1\n", "bids.csv, line 2, column 'b' (client '0'): must be a number"),
    ],
)
def test_a_file_that_does_not_fit_gets_its_sentence(text, said):
    Path("bids.csv").write_text(text)
    settings = RecruitmentSettings(BudgetFair(3.0), Csv("bids.csv"))
    assert said in one_line(InputError, lambda: play(hired(settings)))


def test_the_order_of_rows_and_columns_in_a_file_does_not_matter():
    write_bids([[0, 0.1, 0.2, 0.3], [4, 0.4, 0.5, 0.6]], "one.csv")
    Path("two.csv").write_text("client,c,a,b\n4,0.6,0.4,0.5\n0,0.3,0.1,0.2\n")
    found = []
    for path in ("one.csv", "two.csv"):
        settings = RecruitmentSettings(MaxMinFair(3.0), Csv(path))
        found.append(settings.collect_bids(TASKS, range(12), 0).values)
    assert (found[0] == found[1]).all()
    assert np.isinf(found[0][[1, 2, 3, 5]]).all()


def test_a_file_without_ids_has_a_row_for_each_client():
    Path("bids.csv").write_text("a,b,c\n" + "0.1,0.1,0.1\n" * 12)
    bids = RecruitmentSettings(BudgetFair(3.0), Csv("bids.csv")).collect_bids(TASKS, range(12), 0)
    assert bids.values.tolist() == [[0.1] * 3] * 12


NAMED = {
    "text": (["north", "south", "east"], "client,a\nsouth,0.2\nnorth,0.1\n", [0.1, 0.2, np.inf]),
    "numbers": (["1", "2", "3"], "client,a\n1,0.1\n3,0.3\n", [0.1, np.inf, 0.3]),
    "client numbers": (["x", "y", "z"], "client,a\n0,0.1\n1,0.2\n", [0.1, 0.2, np.inf]),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_file_may_call_clients_as_the_data_does(case):
    names, text, wanted = NAMED[case]
    Path("bids.csv").write_text(text)
    settings = RecruitmentSettings(MaxMinFair(3.0), Csv("bids.csv"))
    found = settings.collect_bids(["a"], range(3), 0, names)
    assert found.values[:, 0].tolist() == wanted
    assert list(found.clients) == [0, 1, 2]


def test_a_name_that_the_data_does_not_have_is_one_sentence():
    Path("bids.csv").write_text("client,a\nnorth,0.2\nsout,0.1\n")
    settings = RecruitmentSettings(MaxMinFair(3.0), Csv("bids.csv"))
    said = one_line(
        InputError, lambda: settings.collect_bids(["a"], range(2), 0, ["north", "south"])
    )
    assert said.endswith("client 'sout' is not in the experiment; did you mean 'south'?")
    found = settings.collect_bids(["a"], range(2), 0, None)
    assert list(found.clients) == ["north", "sout"]


# Configuration


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("mechanism = { kind = 'max_min_fair' }", "recruitment.mechanism.budget is missing"),
        ("mechanism = { kind = 'vcg', budget = 1.0 }", "unknown mechanism 'vcg'"),
        ("mechanism = { kind = 'gmm_fair', budget = 0 }", "mechanism.budget must be greater than"),
        ("mechanism = { kind = 'gmm_fair', budget = 1.0, payment = 'share' }", "payment is not a"),
        ("mechanism = { kind = 'gmm_fair', budget = 1.0 }", "needs bids, or a bid model"),
        ("mechanism = 'gmm_fair'", "budget is missing"),
        ("bids = 'uniform'", "recruitment.mechanism is missing"),
    ],
)
def test_mistakes_get_their_sentence(small_toml, settings, said):
    text = f"{small_toml}\n[recruitment]\n{settings}\n"
    assert said in one_line(ConfigError, lambda: Experiment.from_toml(text))


def test_models_of_bids_are_for_tasks_that_exist(small_toml):
    text = small_toml + SETTINGS + "tasks.dens = { kind = 'uniform' }\n"
    message = one_line(ConfigError, lambda: Experiment.from_toml(text))
    assert "recruitment.tasks: no task is called 'dens'; did you mean 'dense'?" in message
    text = small_toml + SETTINGS.replace('"uniform"', '"csv", path = "x"') + "correlation = 0.5\n"
    assert "correlation cannot be set" in one_line(ConfigError, lambda: Experiment.from_toml(text))


def test_each_task_may_have_its_own_model(small_toml):
    text = small_toml + SETTINGS + "tasks.image = { kind = 'uniform', low = 5.0, high = 6.0 }\n"
    found = Experiment.from_toml(text)
    assert found.recruitment is not None
    assert found.recruitment.tasks == {"image": UniformBids(5.0, 6.0)}
    assert Experiment.from_toml(found.to_toml()) == found
    bids = found.recruitment.collect_bids(("dense", "image"), range(10), 0)
    assert (bids.values[:, 0] < 1).all()
    assert (bids.values[:, 1] > 5).all()


@component
class Nobody:
    """A mechanism that recruits nobody, or answers nonsense."""

    answer: str = "nobody"

    def recruit(self, bids):
        if self.answer == "raises":
            raise RuntimeError("no\nway")
        if self.answer == "none":
            return None
        N, S = bids.shape
        nothing = np.zeros((N, S) if self.answer == "nobody" else (S, N))
        empty = (np.empty(0, np.int64),) * S
        return Recruitment(bids, nothing, nothing, empty, (None,) * S, (None,) * S)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("nobody", "nobody was recruited"),
        ("raises", "failed: RuntimeError: no way"),
        ("none", "must return a Recruitment of 12 clients and 3 tasks"),
        ("turned", "must return a Recruitment of 12 clients and 3 tasks"),
    ],
)
def test_a_mechanism_of_the_users_own_is_not_trusted(answer, said):
    settings = RecruitmentSettings(Nobody(answer), UniformBids())
    assert said in one_line(InputError, lambda: play(hired(settings)))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/zero", "cannot read '/dev/zero': it is a device, not a file"),
        ("pipe.csv", "cannot read 'pipe.csv': it is a pipe, not a file"),
        (".", "cannot read '.': Is a directory"),
        ("a\x00b", r"cannot read 'a\x00b': its name contains a zero byte"),
    ],
)
def test_what_is_no_file_is_not_waited_for(path, said):
    os.mkfifo("pipe.csv")
    settings = RecruitmentSettings(BudgetFair(3.0), Csv(path))
    for act in (settings.files, lambda: recruit(*_given(settings))):
        assert one_line(InputError, act) == f"recruitment.bids: {said}"


def _given(settings: RecruitmentSettings):
    engine = mock(changes={"recruitment": settings})
    return settings, engine.federation, engine.experiment.seed


def test_ids_of_a_range_are_those_of_a_list():
    settings = RecruitmentSettings(GMMFair(2.0), UniformBids())
    listed, ranged = (
        settings.collect_bids(["a"], ids, 3) for ids in (range(5, 25, 3), [*range(5, 25, 3)])
    )
    assert (listed.values == ranged.values).all()
