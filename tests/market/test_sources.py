"""Models of bids: quantiles against scipy, correlated draws, and markets as files."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scipy.stats

from mmfl.errors import ConfigError, InputError
from mmfl.market import Market, simulated_bids
from mmfl.market.bids_io import (
    DISTRIBUTIONS,
    Beta,
    Exponential,
    IncreasingLinear,
    TruncatedNormal,
    UniformBids,
    cdf_of,
)
from support.helpers import one_line


def truncated(mean, sd, low, high):
    a, b = (low - mean) / sd, (high - mean) / sd
    return scipy.stats.truncnorm(a, b, loc=mean, scale=sd)


MODELS = [
    (TruncatedNormal(0.5, 0.2), truncated(0.5, 0.2, 0, 1)),
    (TruncatedNormal(0.2, 0.1, 0.15, 0.3), truncated(0.2, 0.1, 0.15, 0.3)),
    (TruncatedNormal(0.0, 1.0), truncated(0, 1, 0, 1)),
    (TruncatedNormal(1.0, 1.0), truncated(1, 1, 0, 1)),
    (TruncatedNormal(0.0, 0.1, 0.5, 1.0), truncated(0, 0.1, 0.5, 1)),
    (TruncatedNormal(0.0, 0.01, 0.5, 1.0), truncated(0, 0.01, 0.5, 1)),  # 50 deviations away
    (TruncatedNormal(2.0, 0.01), truncated(2, 0.01, 0, 1)),
    (TruncatedNormal(1000.0, 1.0), truncated(1000, 1, 0, 1)),
    (IncreasingLinear(), scipy.stats.triang(1)),
    (IncreasingLinear(0.5, 2.0), scipy.stats.triang(1, 0.5, 1.5)),
    (UniformBids(), scipy.stats.uniform()),
    (UniformBids(2.0, 5.0), scipy.stats.uniform(2, 3)),
    (Exponential(), scipy.stats.expon()),
    (Exponential(0.25), scipy.stats.expon(scale=0.25)),
    (Beta(2.0, 5.0), scipy.stats.beta(2, 5)),
    (Beta(0.5, 0.5, 3.0), scipy.stats.beta(0.5, 0.5, scale=3)),
]
models = pytest.mark.parametrize(("model", "reference"), MODELS, ids=lambda value: repr(value)[:50])
SHARES = np.concatenate([[2.0**-54, 1e-9], np.linspace(1e-4, 1 - 1e-4, 401), [1 - 2.0**-53]])


def test_every_kind_is_compared_here():
    assert {type(model) for model, _ in MODELS} == set(DISTRIBUTIONS.table.values())


@models
def test_quantiles_are_those_of_scipy(model, reference):
    inner = SHARES[2:-1]
    assert model.quantile(inner) == pytest.approx(reference.ppf(inner), rel=1e-8, abs=1e-12)
    back = reference.cdf(model.quantile(inner))
    assert back == pytest.approx(inner, abs=1e-6)


@models
def test_shares_below_a_bid_are_those_of_scipy(model, reference):
    low, high = reference.ppf([1e-12, 1 - 1e-12])
    bids = np.linspace(max(low - 1.0, 0.0), high + 1.0, 301)
    assert model.cdf(bids) == pytest.approx(reference.cdf(bids), rel=1e-8, abs=1e-12)
    assert model.cdf(model.quantile(SHARES[2:-1])) == pytest.approx(SHARES[2:-1], abs=1e-6)


@models
def test_a_model_that_knows_only_quantiles_has_its_shares_found(model, reference):
    class Own:
        quantile = model.quantile

    bids = np.linspace(*reference.ppf([1e-3, 1 - 1e-3]), 50)
    assert cdf_of(model) == model.cdf
    assert cdf_of(Own())(bids) == pytest.approx(reference.cdf(bids), abs=1e-6)
    assert cdf_of(Own())(np.array([-1.0, 1e9])).tolist() == [0.0, 1.0]


@models
def test_quantiles_are_finite_rising_and_within_bounds(model, reference):
    found = model.quantile(SHARES)
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    low, high = reference.support()
    assert (found >= low).all()
    assert (found <= high * (1 + 1e-15)).all()
    assert found[0] == pytest.approx(low, abs=max(0.02 * abs(reference.std()), 1e-12)) or (
        reference.cdf(found[0]) < 1e-9
    )


@pytest.mark.parametrize("sd", [1e-2, 1e-4, 1e-6, 1e-9])
def test_what_is_left_of_a_normal_far_away_is_exponential(sd):
    """At 0.5 of N(0, sd) the hazard rate is 0.5 / sd^2, however far away that is."""
    found = TruncatedNormal(0.0, sd, 0.5, 1.0).quantile(SHARES)
    assert np.isfinite(found).all()
    assert found - 0.5 == pytest.approx(-np.log1p(-SHARES) * sd**2 / 0.5, rel=5e-2, abs=1e-12)
    mirrored = TruncatedNormal(1.0, sd, 0.0, 0.5).quantile(SHARES)
    assert 0.5 - mirrored == pytest.approx(-np.log(SHARES) * sd**2 / 0.5, rel=5e-2, abs=1e-12)


@models
def test_simulated_bids_follow_the_distribution(model, reference):
    values = simulated_bids({"a": model}, range(4000)).values[:, 0]
    assert scipy.stats.kstest(values, reference.cdf).pvalue > 1e-4
    error = reference.std() / math.sqrt(len(values))
    assert abs(values.mean() - reference.mean()) < 5 * error + 1e-12


def test_the_bids_of_experiment_5():
    bids = Market(100, {"a": TruncatedNormal(0.5, 0.2), "b": IncreasingLinear()}, seed=3).bids()
    assert bids.shape == (100, 2)
    assert bids.tasks == ("a", "b")
    assert list(bids.clients) == list(range(100))
    assert bids.values[:, 0].mean() == pytest.approx(0.5, abs=0.1)
    assert bids.values[:, 1].mean() == pytest.approx(2 / 3, abs=0.1)


# Draws

TASKS = {"a": UniformBids(), "b": TruncatedNormal(0.5, 0.2), "c": Exponential()}


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9, 1.0])
def test_scores_are_correlated_as_asked(correlation):
    values = simulated_bids(TASKS, range(20_000), correlation=correlation, seed=2).values
    shares = [
        values[:, 0],
        MODELS[0][1].cdf(values[:, 1]),
        scipy.stats.expon().cdf(values[:, 2]),
    ]
    scores = scipy.stats.norm.ppf(np.clip(shares, 1e-12, 1 - 1e-12))
    found = np.corrcoef(scores)[np.triu_indices(3, 1)]
    assert found == pytest.approx([correlation] * 3, abs=0.03)
    assert values[:, 0].mean() == pytest.approx(0.5, abs=0.02)  # the margins stay


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_a_bid_depends_on_no_other_client_and_no_other_task(correlation):
    many = simulated_bids(TASKS, range(50), correlation=correlation, seed=1)
    few = simulated_bids(TASKS, [40, 3, 17], correlation=correlation, seed=1)
    assert np.array_equal(few.values, many.values[[40, 3, 17]])
    assert list(few.clients) == [40, 3, 17]
    alone = simulated_bids({"c": TASKS["c"]}, range(50), correlation=correlation, seed=1)
    assert np.array_equal(alone.values[:, 0], many.values[:, 2])
    backwards = dict(reversed(TASKS.items()))
    turned = simulated_bids(backwards, range(50), correlation=correlation, seed=1)
    assert np.array_equal(turned.values[:, ::-1], many.values)


def test_seeds_differ_and_repeat():
    first, again, other = (simulated_bids(TASKS, range(9), seed=seed).values for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not (first == other).any()


def test_the_highest_random_number_is_a_bid_too(monkeypatch):
    for number in (0.0, 1 - 2.0**-53):
        monkeypatch.setattr("mmfl.rng.Stream.at", lambda self, ids, n=number: np.full(len(ids), n))
        for correlation in (0.0, 0.5):
            values = simulated_bids(TASKS, range(2), correlation=correlation).values
            assert np.isfinite(values).all()


def test_nobody_may_be_simulated():
    assert simulated_bids(TASKS, []).shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": {}}, "at least one task"),
        ({"correlation": 1.5}, "correlation must be between 0 and 1, got 1.5"),
        ({"correlation": -0.1}, "correlation must be between 0 and 1"),
        ({"correlation": math.nan}, "correlation must be between 0 and 1"),
        ({"clients": [0.5, 1.5]}, "clients must be whole numbers"),
        ({"clients": ["anna"]}, "clients must be whole numbers"),
        ({"clients": [1, 1]}, "two clients are called 1"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, words):
    whole = {"tasks": TASKS, "clients": [0, 1], **arguments}
    assert words in one_line(InputError, lambda: simulated_bids(**whole))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TruncatedNormal(0.5, 0.0), "sd must be greater than 0"),
        (lambda: TruncatedNormal(-0.5, 0.1), "mean must be greater than or equal to 0"),
        (lambda: TruncatedNormal(0.5, 0.1, 1.0, 1.0), "low must be below high, got 1 and 1"),
        (lambda: UniformBids(2.0, 1.0), "low must be below high"),
        (lambda: IncreasingLinear(2.0), "low must be below high"),
        (lambda: Exponential(0.0), "mean must be greater than 0"),
        (lambda: Beta(0.0, 1.0), "a must be greater than 0"),
        (lambda: UniformBids(0.0, math.inf), "high must be a finite number"),
    ],
)
def test_parameters_have_rules(make, words):
    assert words in one_line(ConfigError, make)


# Markets as files

MARKET = """
clients = 30
correlation = 0.25
seed = 4
[tasks.mnist]
kind = "truncated_normal"
mean = 0.5
sd = 0.2
[tasks.fashion]
kind = "increasing_linear"
[tasks.letters]
kind = "beta"
a = 2.0
b = 5.0
"""


@pytest.fixture
def load(tmp_path):
    def load(text: str | bytes) -> Market:
        path = tmp_path / "market.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Market.load(path)

    return load


def test_a_market_is_read_from_a_file(load):
    market = load(MARKET)
    assert market == Market(
        30,
        {
            "mnist": TruncatedNormal(0.5, 0.2),
            "fashion": IncreasingLinear(),
            "letters": Beta(2.0, 5.0),
        },
        0.25,
        4,
    )
    assert copy.deepcopy(market) == market
    assert market.bids().shape == (30, 3)
    assert market.bids().tasks == ("mnist", "fashion", "letters")
    assert np.array_equal(market.bids(4).values, market.bids().values)
    assert not (market.bids(5).values == market.bids().values).any()
    expected = simulated_bids(market.tasks, range(30), correlation=0.25, seed=4)
    assert np.array_equal(market.bids().values, expected.values)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("clients = 30", "clients = 0", "clients must be greater than or equal to 1, got 0"),
        ("clients = 30", "clients = 2.5", "clients must be a whole number, got 2.5"),
        ("clients = 30", "", "clients is missing"),
        ("correlation = 0.25", "correlation = 2.0", "correlation must be less than or equal to 1"),
        ("correlation = 0.25", "correlation = nan", "correlation must"),
        ("seed = 4", "seed = -4", "seed must be greater than or equal to 0"),
        ("seed = 4", "colour = 4", "colour is not a known key"),
        ('"truncated_normal"', '"truncated"', "tasks.mnist.kind: unknown bid model 'truncated'"),
        ("sd = 0.2", "sd = -1", "tasks.mnist.sd must be greater than 0"),
        ("sd = 0.2", "", "tasks.mnist.sd is missing"),
        ("sd = 0.2", "sd = 0.2\nmu = 1", "tasks.mnist.mu is not a known key"),
        ("sd = 0.2", "sd = 0.2\nlow = 2.0", "tasks.mnist: low must be below high"),
        ('kind = "beta"', "", "tasks.letters needs a 'kind'"),
        (MARKET, "clients = 3\n", "tasks is missing"),
        (MARKET, "clients = 3\ntasks = {}\n", "at least one task is needed"),
        (MARKET, "clients = 3\ntasks = 5\n", "tasks must"),
        (MARKET, "clients =\n", "not valid TOML"),
        (MARKET, b"clients = '\xff'\n", "not UTF-8"),
    ],
)
def test_a_mistake_in_a_market_is_one_sentence(load, tmp_path, before, after, words):
    text = after if before == MARKET else MARKET.replace(before, after, 1)
    message = one_line(ConfigError, lambda: load(text))
    assert words in message
    assert message.count(str(tmp_path / "market.toml")) == 1


def test_a_market_that_is_not_there(tmp_path):
    message = one_line(ConfigError, lambda: Market.load(tmp_path / "none.toml"))
    assert "No such file" in message
