"""How many processors may be used: those of the machine, or what a container's quota allows."""

from __future__ import annotations

import os

import pytest

from mmfl.experiment import Local
from mmfl.system import processors
from mmfl.system.processors import count_usable


@pytest.fixture
def box(tmp_path, monkeypatch):
    """A machine of 8 cores; from groups' files to the number of processors that may be used."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)

    def box(own: str, **files: str) -> int:
        root = tmp_path / "groups"
        for name, text in files.items():
            path = root.joinpath(*name.split("__"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "own").write_text(own)
        return count_usable(root, tmp_path / "own")

    return box


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1000 1000000", 1),
        ("1600000 100000", 8),
        ("", 8),
        ("nonsense", 8),
        ("100000 0", 8),
    ],
)
def test_the_second_version(box, quota, count):
    assert box("0::/pod/box\n", **{"pod__box__cpu.max": f"{quota}\n"}) == count


def test_a_group_around_may_allow_less(box):
    files = {"pod__cpu.max": "300000 100000\n", "pod__box__cpu.max": "max 100000\n"}
    assert box("0::/pod/box\n", **files) == 3


def test_a_container_may_see_its_own_group_as_the_root(box):
    assert box("0::/../../pod/box\n", **{"cpu.max": "400000 100000\n"}) == 4


@pytest.mark.parametrize(("quota", "count"), [(-1, 8), (250_000, 3), (10_000, 1)])
def test_the_first_version(box, quota, count):
    files = {"cpu__box__cpu.cfs_quota_us": f"{quota}\n", "cpu__box__cpu.cfs_period_us": "100000\n"}
    assert box("7:cpuset:/\n4:cpu,cpuacct:/box\n", **files) == count


def test_without_groups_the_cores_count(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    assert count_usable(tmp_path / "none", tmp_path / "nothing") == 2


def test_as_many_workers_are_started_as_may_run(tmp_path, monkeypatch):
    monkeypatch.setattr(processors.count_usable, "__defaults__", (tmp_path, tmp_path / "own"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "cpu.max").write_text("300000 100000\n")
    assert Local().count_workers("cpu") == 3
    assert Local(workers=5).count_workers("cpu") == 5
