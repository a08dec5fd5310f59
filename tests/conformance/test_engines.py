"""What every engine must do: the same bits as all the others, in the order of the jobs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.aggregate import check_update, partial_sums
from mmfl.exchange import ClientFailure, ClientUpdate
from mmfl.experiment import ENGINES
from mmfl.loop import combine
from support.flower_grid import FakeGrid, open_flower
from support.jobs import first_jobs

FEW = {"local": {"workers": 2}, "ray": {"workers": 2}}
BEYOND = {"ray": "ray"}
"""The engines for several machines, which `make test-engines` tests, and what they need."""


def describe(kind):
    """The settings of an engine, to be tested where its turn is."""
    config = {"kind": kind, **FEW.get(kind, {})}
    if kind not in BEYOND:
        return config
    missing = find_spec(BEYOND[kind]) is None
    skip = pytest.mark.skipif(missing, reason=f"{BEYOND[kind]} is not installed")
    return pytest.param(config, marks=[pytest.mark.engines, skip])


ALL = [describe(kind) for kind in sorted(ENGINES.table)]
SIZES = [{"kind": "local", "workers": n} for n in (1, 3)]


def open_engine(config, experiment):
    """A running engine; that of Flower over nodes in this process."""
    if config["kind"] == "flower":
        return open_flower(experiment, FakeGrid(experiment.clients.count))
    return ENGINES.parse(config).open(experiment, data_dir=None)


@pytest.fixture(scope="module", params=ALL, ids=lambda config: config["kind"])
def engine(request):
    small = Experiment.from_toml(request.getfixturevalue("small_toml"))
    with closing(open_engine(request.param, small)) as engine:
        yield engine


@pytest.fixture(scope="module")
def expected(small_toml):
    *_, (state, _) = mmfl.rounds(Experiment.from_toml(small_toml))
    return state.fingerprint


@pytest.mark.parametrize("config", ALL + SIZES, ids=lambda c: "-".join(map(str, c.values())))
def test_a_whole_run_has_the_reference_fingerprint(config, small, expected):
    with closing(open_engine(config, small)) as engine:
        *_, (state, record) = mmfl.rounds(small, engine=engine)
    assert state.fingerprint == expected
    assert record.failures == ()


def test_an_engine_serves_several_runs(engine, small, expected):
    for _ in range(2):
        *_, (state, _) = mmfl.rounds(small, engine=engine)
        assert state.fingerprint == expected


def test_results_come_in_the_order_of_the_jobs_and_pass_the_checks(engine, small):
    jobs, params = first_jobs(engine, small)
    results = list(engine.train(jobs, params))
    assert [r.address for r in results] == [j.address for j in jobs]
    for job, found in zip(jobs, results, strict=True):
        layout = params[job.address.task].layout
        accepted = check_update(found, job.address, layout, found.examples, small.checks)
        assert isinstance(accepted, ClientUpdate)


def test_sums_of_chunks_do_not_depend_on_who_forms_them(engine, small):
    jobs, params = first_jobs(engine, small)
    many = [
        replace(job, address=job.address._replace(client=client))
        for job in jobs[:1]
        for client in range(10)
    ] * 13
    task = jobs[0].address.task
    layout, limits = params[task].layout, small.checks

    def gated(merge):
        for job, found in zip(many, engine.train(many, params, merge=merge), strict=True):
            bare = isinstance(found, ClientFailure) or found.delta is None
            yield (
                found if bare else check_update(found, job.address, layout, found.examples, limits)
            )

    one, other = list(partial_sums(gated(False))), list(partial_sums(gated(True)))
    assert [p.examples for p in one] == [p.examples for p in other]
    assert all(np.array_equal(a.total, b.total) for a, b in zip(one, other, strict=True))


def test_a_client_that_does_not_exist_is_a_failure(engine, small):
    jobs, params = first_jobs(engine, small)
    bad = replace(jobs[0], address=jobs[0].address._replace(client=10_000))
    results = list(engine.train([bad, jobs[0]], params))
    assert isinstance(results[0], ClientFailure)
    assert results[0].reason in ("raised", "dropout")
    assert isinstance(results[1], ClientUpdate)


def test_evaluation_covers_each_split_once(engine):
    params = engine.initial()
    for split, sizes in (("test", (100, 150)), ("validation", (30, 40))):
        found = combine(engine.evaluate(params, split))
        assert [found[task].examples for task in ("dense", "image")] == list(sizes)
        assert all(np.isfinite(m.loss) and 0 <= m.metric <= 1 for m in found.values())


def test_clients_evaluate_on_their_own_shards(engine):
    params = engine.initial()
    asked = {"dense": np.array([1, 4]), "image": np.array([9])}
    found = list(engine.evaluate(params, "train", asked))
    assert [(e.task, e.client) for e in found] == [("dense", 1), ("dense", 4), ("image", 9)]
    sizes = engine.federation.sizes(np.array([1, 4, 9]))
    assert [e.examples for e in found] == [sizes[0, 0], sizes[1, 0], sizes[2, 1]]


def test_no_jobs_no_results(engine):
    assert list(engine.train([], engine.initial())) == []


def test_training_that_was_broken_off_leaves_the_engine_usable(engine, small):
    jobs, params = first_jobs(engine, small)
    whole = list(engine.train(jobs, params))
    broken = engine.train(jobs, params)
    next(broken)
    broken.close()
    again = list(engine.train(jobs, params))
    assert all(
        np.array_equal(a.delta.flat, b.delta.flat) for a, b in zip(whole, again, strict=True)
    )


@pytest.mark.parametrize("config", ALL, ids=lambda config: config["kind"])
def test_closing_twice_is_fine(config, small):
    engine = open_engine(config, small)
    engine.close()
    engine.close()
