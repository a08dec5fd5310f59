"""The key `device`: its rules, its part in an experiment's identity, and machines without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import mmfl
from mmfl import Experiment
from mmfl.config import dump
from mmfl.errors import ConfigError, InputError, StoreError
from mmfl.experiment import Inline, Local, ModelSize, describe_change, differences, model_needs
from mmfl.runs.environment import inexact
from support.helpers import LEAST, one_line

HAS_GPU = torch.cuda.is_available() or torch.backends.mps.is_available()
no_gpu = pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")


def made(*sets: str) -> Experiment:
    return Experiment.from_toml(LEAST, sets=("tasks.a.dataset=synthetic", *sets))


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:x", "cuda:01", "cpu:0", "", "CUDA", 0, True]
)
def test_a_device_has_a_name_of_torchs(name):
    said = one_line(ConfigError, lambda: Experiment.from_dict(dump(made()) | {"device": name}))
    assert said.startswith('device must be "cpu", "cuda", "cuda:1", "mps" or "auto", got ')


def test_the_processor_leaves_no_trace():
    """Digests of experiments from before there were devices stay the same."""
    assert "device" not in dump(made("device=cpu"))
    assert made("device=cpu").digest == made().digest


def test_the_type_of_device_is_part_of_the_experiment_and_its_number_is_not():
    names = ("cpu", "cuda", "mps")
    assert len({made(f"device={name}").digest for name in names}) == 3
    assert made("device=cuda:1").digest == made("device=cuda").digest
    assert Experiment.from_toml(made("device=cuda:1").to_toml()).device == "cuda:1"
    tables = {name: dump(made(f"device={name}")) for name in (*names, "cuda:1")}
    assert differences(tables["cuda"], tables["cuda:1"]) == {}
    (change,) = differences(tables["cuda:1"], tables["cpu"]).items()
    assert describe_change(change[0], *change[1]) == "device was 'cuda:1' and is now 'cpu'"


@no_gpu
def test_auto_is_resolved_once_and_the_resolved_device_is_stored(tmp_path):
    e = replace(made("device=auto", "rounds=1"), engine=Inline())
    assert e.resolved().device == "cpu"
    assert e.resolved().digest == made("rounds=1").resolved().digest
    mmfl.run(e, out=tmp_path / "run")
    assert "auto" not in (tmp_path / "run/experiment.toml").read_text().replace('kind = "auto"', "")
    longer = replace(made("device=auto", "rounds=2"), engine=Inline())
    again = mmfl.run(longer, out=tmp_path / "run", resume=True)
    assert again.rounds == 2


@no_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
@pytest.mark.parametrize("engine", [Inline(), Local(2)])
def test_a_machine_without_it_says_so_before_any_work(tmp_path, device, engine):
    e = replace(made(f"device={device}"), engine=engine)
    said = one_line(InputError, lambda: mmfl.run(e, out=tmp_path / "run"))
    assert said.startswith(f'device = "{device}": ')
    assert said.endswith('; use "cpu", or "auto" for what there is')
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_resumed_on_another_type_of_device(tmp_path):
    e = replace(made("rounds=1"), engine=Inline())
    mmfl.run(e, out=tmp_path / "run")
    other = replace(e, rounds=2, device="cuda")
    said = one_line(StoreError, lambda: mmfl.run(other, out=tmp_path / "run", resume=True))
    assert "device was 'cpu' and is now 'cuda'" in said


def test_a_run_that_was_resumed_on_another_model_of_gpu_is_marked():
    first = {"numerics": {"gpu": "A100", "cuda": "12.8", "cudnn": "91002"}}
    resumed = {"after_round": 3, "numerics": {"gpu": "H100", "cuda": "12.8", "cudnn": "91002"}}
    assert inexact(first | {"resumed": [{"after_round": 3, **first}]}) == ""
    said = inexact(first | {"resumed": [resumed]})
    assert said == "started with GPU A100, resumed after round 3 with GPU H100"


def test_the_kernel_batched_is_for_the_processor():
    task = made().tasks[0]
    assert made().kernel_of(task) == "batched"
    assert made("device=cuda").kernel_of(task) == "fast"
    said = one_line(ConfigError, lambda: made("device=cuda", "kernel=batched"))
    assert 'device = "cpu"' in said


def test_few_workers_share_a_gpu_unless_it_is_said(monkeypatch):
    monkeypatch.setattr("mmfl.experiment.engines.count_usable", lambda: 64)
    assert [Local().count_workers(device) for device in ("cpu", "cuda")] == [64, 4]
    assert Local(9).count_workers("cuda") == 9


def test_a_gpus_memory_is_not_forecast():
    from mmfl.experiment import DataCache, simulate

    e = made()
    arrays = DataCache(None).arrays(e)
    federation = simulate(e, arrays)
    sizes = {"a": ModelSize(1000, 10**9, 10**9)}
    whats = {
        device: [
            need.what for need in model_needs(replace(e, device=device), federation, arrays, sizes)
        ]
        for device in ("cpu", "cuda")
    }
    assert any("a batch of" in what for what in whats["cpu"])
    assert not any("a batch of" in what for what in whats["cuda"])
