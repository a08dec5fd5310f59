"""Clients whose availability changes over the rounds."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.errors import ConfigError
from mmfl.experiment import DataCache, Experiment, simulate
from mmfl.loop import Population, rounds
from support.experiments import write_small
from support.helpers import one_line


def made(active: str) -> Experiment:
    return Experiment.from_toml(write_small(top="rounds = 8", clients=f"count = 6\n{active}"))


def turnouts(active: str) -> list[int]:
    return [record.active for _, record in rounds(made(active))]


def test_rows_take_turns_and_each_lasts_its_rounds() -> None:
    found = turnouts("active = { rates = [0.5, 0, 1], rounds = 2 }")
    assert found == [3, 3, 0, 0, 6, 6, 3, 3]


def test_a_row_may_have_a_rate_for_each_client() -> None:
    day, night = "[1, 1, 0, 0, 0, 0]", "[0, 0, 1, 1, 1, 0]"
    experiment = made(f"active = {{ rates = [{day}, {night}], rounds = 3 }}")
    people = Population.of(simulate(experiment, DataCache(None).arrays(experiment)), experiment)
    seen = [people.active(t).tolist() for t in range(1, 9)]
    assert seen == [*[[0, 1]] * 3, *[[2, 3, 4]] * 3, *[[0, 1]] * 2]
    assert people.turnout(4) == 3


def test_a_task_whose_clients_are_active_at_night_can_be_trained() -> None:
    experiment = made("active = { rates = [[1, 0, 0, 0, 0, 0], 0.0, [0, 0, 0, 0, 0, 1]] }")
    assert Population.of(
        simulate(experiment, DataCache(None).arrays(experiment)), experiment
    ).can_train("a")


def test_one_row_is_the_same_experiment_round_by_round_as_its_rate() -> None:
    plain, table = made("active = 0.5"), made("active = { rates = [0.5] }")
    pairs = zip(rounds(plain), rounds(table), strict=True)
    for (_, one), (_, other) in pairs:
        np.testing.assert_array_equal(one.assignments.clients, other.assignments.clients)
        assert one.metric == other.metric


def test_it_goes_to_toml_and_back() -> None:
    experiment = made("active = { rates = [0.5, [0, 0, 1, 1, 1, 0.5]], rounds = 4 }")
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    assert experiment.digest != made("active = { rates = [0.5], rounds = 4 }").digest


@pytest.mark.parametrize(
    ("active", "words"),
    [
        ("{ rates = [] }", "clients.active.rates must have at least 1 item"),
        ("{ rounds = 2 }", "clients.active.rates is missing"),
        ("{ rates = [0.0, [0, 0, 0, 0, 0, 0]] }", "rates must not all be 0"),
        ("{ rates = [[1, 1]] }", "one rate per client (6), got 2"),
        ("{ rates = [0.5, 1.5] }", "clients.active.rates[1] must be a rate in [0, 1]"),
        ("{ rates = [0.5], rounds = 0 }", "clients.active.rounds"),
        ("{ rate = [0.5] }", "clients.active.rate is not a known key; did you mean 'rates'"),
    ],
)
def test_a_mistake_is_one_sentence(active: str, words: str) -> None:
    assert words in one_line(ConfigError, lambda: made(f"active = {active}"))


def test_rates_that_leave_nobody_active_are_refused() -> None:
    with pytest.raises(ValueError, match=r"clients.active = 0.05 of 6 clients .* raise it"):
        turnouts("active = { rates = [0.05, 0.01] }")
