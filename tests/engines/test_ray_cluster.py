"""The Ray engine on several machines: the same bits, whichever machines and workers die."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment
from mmfl.engines import open_ray
from mmfl.errors import EngineError
from mmfl.exchange import CHUNK
from mmfl.experiment import Ray
from support.helpers import one_line
from support.jobs import first_jobs
from support.ray_nodes import descendants, open_cluster

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def nodes():
    with open_cluster(cpus=1) as found:
        yield found


@pytest.fixture(scope="module")
def many(request):
    """Rounds that are long enough to be interrupted."""
    text = request.getfixturevalue("small_toml")
    sets = ["clients.count=40", "clients.active=1.0", "rounds=2"]
    sets += ["tasks.dense.dataset.train=1000", "tasks.image.dataset.train=2000"]
    return Experiment.from_toml(text, sets=sets)


@pytest.fixture(scope="module")
def expected(many):
    *_, (state, _) = mmfl.rounds(many)
    return state.fingerprint


def finish(engine, experiment, state=None):
    """The fingerprint of a run in which no turn is lost."""
    records = list(mmfl.rounds(experiment, engine=engine, state=state))
    assert [record.failures for _, record in records] == [()] * len(records)
    return records[-1][0].fingerprint


def test_whatever_dies_the_bits_are_those_of_one_process(nodes, many, expected, capfd):
    text = many.to_toml()
    few = Experiment.from_toml(text, sets=["clients.count=4"])
    auction = "recruitment={mechanism={kind='max_min_fair',budget=6.0},bids='uniform'}"
    paid = Experiment.from_toml(text, sets=[auction])
    second = nodes.add(1)
    settings = Ray(address=nodes.address)
    with closing(open_ray(many, None, settings)) as engine:
        assert engine.workers == 2
        assert finish(engine, many) == expected
        for experiment in (few, paid):
            *_, (state, _) = mmfl.rounds(experiment)
            assert finish(engine, experiment) == state.fingerprint

        jobs, params = first_jobs(engine, many)
        sums = [update for update in engine.train(jobs, params, merge=True) if update.delta is None]
        assert len(sums) >= 2 * CHUNK  # of 40 turns; the last, in which nobody is to wait, are not
        whole = [update.delta.flat.tobytes() for update in engine.train(jobs, params)]
        results = engine.train(jobs, params)
        first = [next(results).delta.flat.tobytes()]
        os.kill(find_workers()[0], signal.SIGKILL)
        assert first + [update.delta.flat.tobytes() for update in results] == whole

        results = engine.train(jobs, params)
        first = [next(results).delta.flat.tobytes()]
        nodes.kill(second)
        assert first + [update.delta.flat.tobytes() for update in results] == whole
        assert finish(engine, many) == expected
    assert find_workers() == []
    assert capfd.readouterr() == ("", "")


def find_workers() -> list[int]:
    """The processes of all actors."""
    return [number for number in descendants(os.getpid()) if read_name(number) == "ray::Actor"]


def read_name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0 ")
    except OSError:  # it has ended
        return ""


def test_a_program_has_one_connection(nodes, small):
    with closing(open_ray(small, None, Ray(address=nodes.address, workers=1))):
        said = one_line(EngineError, lambda: open_ray(small, None, Ray()))
    assert said == (
        f"this program is connected to {nodes.address} and cannot be connected to a Ray of its own "
        "at the same time: close the other engine first"
    )


def test_where_no_ray_answers_is_one_sentence(small):
    said = one_line(EngineError, lambda: open_ray(small, None, Ray(address="127.0.0.1:9")))
    assert said == "no Ray answers at 127.0.0.1:9"


def test_no_room_for_a_worker_is_one_sentence(nodes, small, monkeypatch):
    monkeypatch.setattr("mmfl.engines.ray.launcher.START", 1.0)
    wide = replace(Ray(address=nodes.address), num_cpus=64.0)
    said = one_line(EngineError, lambda: open_ray(small, None, wide))
    assert said == "no machine of the cluster has 64 CPU and 0 GPU, which each worker needs"
    with closing(open_ray(small, None, replace(wide, workers=1))) as engine:
        said = one_line(EngineError, engine.numerics)
    assert "within 1 seconds: each needs 64 CPU, and 1 CPU and 0 GPU are free" in said


def test_a_machine_with_other_bits_is_refused_unless_machines_may_be_mixed(nodes, small):
    strange = nodes.add(1, env_vars={"ATEN_CPU_CAPABILITY": "default"})
    try:
        settings = Ray(address=nodes.address, workers=2)
        with closing(open_ray(small, None, settings)) as engine:
            said = one_line(EngineError, lambda: list(mmfl.rounds(small, engine=engine)))
        assert re.match(
            r"127.0.0.1 \(node \w+\) and 127.0.0.1 \(node \w+\) compute other bits "
            r"\(cpu_capability: \w+ and \w+\), so that results would depend on",
            said,
        )
        assert said.endswith("set engine.mixed = true")
        with closing(open_ray(small, None, replace(settings, mixed=True))) as engine:
            assert engine.numerics()["mixed"] == "yes"
            *_, (_, record) = mmfl.rounds(small, engine=engine)
        assert record.failures == ()
    finally:
        nodes.kill(strange)
