"""What is refused for want of memory, and in which words; what the system says there is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mmfl.errors import ResourceError
from mmfl.system import memory
from mmfl.system.memory import Memory, Need, describe_shortage, refuse, size
from support.helpers import one_line

GB = 10**9


def refusal(needs, *, workers=0, **there) -> str:
    return one_line(ResourceError, lambda: refuse(needs, workers=workers, memory=Memory(**there)))


def test_the_largest_need_is_to_blame():
    needs = [Need("a", GB), Need("clients.count = 7: an auction", 30 * GB), Need("c", 2 * GB)]
    assert refusal(needs, machine=20 * GB) == (
        "clients.count = 7: an auction needs about 30 GB; 20 GB is free"
    )


def test_small_needs_are_refused_together():
    needs = [Need("a", 12 * GB), Need("b", 9 * GB)]
    said = "a needs about 12 GB, and everything together 21 GB; 20 GB is free"
    assert refusal(needs, machine=20 * GB) == said
    refuse(needs, memory=Memory(machine=21 * GB))


def test_what_every_worker_needs_counts_as_often_as_there_are_workers():
    needs = [Need("a model", 6 * GB, each=True), Need("data", 7 * GB)]
    refuse(needs, workers=1, memory=Memory(machine=13 * GB))
    assert refusal(needs, workers=2, machine=13 * GB) == (
        "a model needs about 6.0 GB in each of 2 worker processes, and everything together 19 GB; "
        "13 GB is free"
    )
    assert refusal(needs, machine=12 * GB) == (  # nobody else is there to do it
        "data needs about 7.0 GB, and everything together 13 GB; 12 GB is free"
    )


def test_a_limit_on_addresses_is_for_each_process_by_itself():
    needs = [Need("a model", 6 * GB, each=True), Need("data", 7 * GB)]
    refuse(needs, workers=50, memory=Memory(process=7 * GB, child=6 * GB))
    assert refusal(needs, workers=2, process=6 * GB) == (
        "data needs about 7.0 GB; 6.0 GB is left of this process's limit (ulimit -v)"
    )
    assert refusal(needs, workers=2, child=5 * GB) == (
        "a model needs about 6.0 GB in each of 2 worker processes; "
        "5.0 GB is the limit of each process (ulimit -v)"
    )


def test_nothing_is_refused_where_nothing_is_known():
    refuse([Need("a", 10**30)], memory=Memory())


def test_sizes_are_for_people():
    sizes = (5, 999, 1500, 9_960, 21_300_000_000, 999_600_000, 4 * 10**15, 10**400)
    words = ["5 bytes", "999 bytes", "1.5 kB", "10 kB", "21 GB", "1.0 GB", "4.0 PB", "1,000,000 EB"]
    assert [size(n) for n in sizes] == words


def test_the_system_says_what_there_is():
    now = Memory.now()
    assert now.machine is not None
    assert 10**7 < now.machine < 10**15


def test_a_limit_on_addresses_is_known_and_what_is_left_of_it():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, 3 * 10**9));"
        "from mmfl.system.memory import Memory; now = Memory.now(); print(now.child, now.process)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    limit, left = map(int, done.stdout.split())
    assert limit == 3 * 10**9
    assert 10**9 < left < limit


@pytest.mark.parametrize("place", ["box/inner", ""])
def test_the_limits_of_control_groups_count_and_cached_files_do_not(tmp_path, place):
    group = tmp_path / "groups" / place
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{8 * GB}\n")
    (group / "memory.current").write_text(f"{6 * GB}\n")
    (group / "memory.stat").write_text(f"anon 5\nactive_file {GB}\ninactive_file {2 * GB}\n")
    (tmp_path / "own").write_text("0::/box/inner\n")
    assert list(memory.left_in_groups(tmp_path / "groups", tmp_path / "own")) == [5 * GB]
    (group / "memory.max").write_text("max\n")
    assert list(memory.left_in_groups(tmp_path / "groups", tmp_path / "own")) == []


def test_so_do_those_of_the_first_version_also_of_a_group_around(tmp_path):
    outer = tmp_path / "groups" / "memory" / "box"
    (outer / "inner").mkdir(parents=True)
    for folder, limit in ((outer, 4 * GB), (outer / "inner", 2**63 - 4096)):
        (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{3 * GB}\n")
        (folder / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {GB}\n")
    (tmp_path / "own").write_text("5:cpu:/box\n4:memory:/box/inner\n1:name=systemd:/\n")
    assert list(memory.left_in_groups(tmp_path / "groups", tmp_path / "own")) == [2 * GB]


def test_exceptions_that_mean_that_memory_ran_out_are_known():
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**17)
    assert describe_shortage(caught.value) == "out of memory: 400 PB more were requested"
    assert describe_shortage(MemoryError()) == "out of memory"
    assert describe_shortage(MemoryError("Unable\n to")) == "out of memory: Unable to"
    assert describe_shortage(RuntimeError("shapes")) is None
