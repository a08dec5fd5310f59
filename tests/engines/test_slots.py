"""Slots for results: never two at one place, few maps, no more disk space than is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmfl
from mmfl import Experiment
from mmfl.aggregate import partial_sums
from mmfl.engines.shared_memory.slots import Slots
from mmfl.exchange import CHUNK
from mmfl.system.memory import Memory
from support.jobs import first_jobs
from support.marks import slow

MiB = 1 << 20


def reserved() -> int:
    """Bytes of all files without a name, on the disk or in memory, that this process has open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    files = [os.stat(link) for link in links if os.readlink(link).endswith("(deleted)")]
    return sum({file.st_ino: file.st_blocks * 512 for file in files}.values())


@given(
    st.lists(st.one_of(st.integers(1, 1 << 22), st.integers(-9, -1)), max_size=60),
    st.sampled_from([0, 5 << 20, 1 << 30]),
)
def test_slots_in_use_never_overlap_and_what_was_given_back_is_used_again(steps, memory):
    with closing(Slots(memory)) as slots:
        before, used, most = reserved(), [], 0
        for step in steps:
            if step > 0:
                slot = slots.take(step)
                slots.read(slot, np.uint8, step)[:] = len(used) % 256
                used.append((slot, step, len(used) % 256))
            elif used:
                slot, size, mark = used.pop(step % len(used))
                assert (slots.read(slot, np.uint8, size) == mark).all()
                slots.give_back(slot)
            most = max(most, sum(size for _, size, _ in used))
        in_memory = [os.fstat(fd).st_blocks * 512 for fd in slots.files[1:]]
        assert sum(in_memory) <= memory
        for slot, size, mark in used:
            assert slot.offset % 64 == 0
            assert slot.block <= slot.offset <= slot.offset + slot.size <= slot.block + slot.length
            assert (slots.read(slot, np.uint8, size) == mark).all()
        assert reserved() - before <= 4 * most + 2 * MiB * len(steps)
        for slot, _, _ in used:
            slots.give_back(slot)
        after = reserved()
        if most:
            slots.take(1)
            assert reserved() == after


def test_a_slot_that_is_lent_is_free_when_the_last_view_of_it_is_gone():
    with closing(Slots()) as slots:
        first = slots.take(4096)
        lent = slots.lend(first, np.float64, 512)
        lent[:] = 7
        part = lent[3:5]
        del lent
        assert slots.take(4096).offset != first.offset
        assert part.tolist() == [7, 7]
        del part
        assert slots.take(4096).offset == first.offset


def test_slots_take_few_descriptors_however_many_there_are():
    folder = Path("/proc/self/fd")
    with closing(Slots()) as slots:
        before = len(list(folder.iterdir()))
        for _ in range(20_000):
            slots.read(slots.take(1000), np.uint8, 1000)
        assert len(list(folder.iterdir())) - before < 10


def test_slots_take_a_quarter_of_the_memory_and_not_a_quarter_of_the_rest_again(monkeypatch):
    with closing(Slots()) as slots:

        def taken() -> int:
            return sum(os.fstat(fd).st_blocks * 512 for fd in slots.files[1:])

        def now() -> Memory:
            return Memory(machine=80 * MiB - taken())

        monkeypatch.setattr("mmfl.engines.shared_memory.slots.Memory.now", now)
        for _ in range(60):
            slots.take(MiB)
        assert 15 * MiB <= taken() <= 20 * MiB


CROWD = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
import mmfl
*_, (state, record) = mmfl.rounds(mmfl.Experiment.load("crowd.toml"))
print(sum(record.clients.values()), len(record.failures))
"""
CROWD_TOML = """
rounds = 1
[clients]
count = COUNT
[local]
epochs = 1
[aggregator]
kind = "KIND"
[engine]
workers = 2
[[tasks]]
name = "a"
dataset = { kind = "synthetic", classes = 4, train = 2000, test = 20 }
model = { kind = "mlp", hidden = [4] }
partition = { kind = "half_classes", points = [2, 40], overlap = true }
"""


@pytest.mark.parametrize(("kind", "count"), [("median", 200), slow("mean", 600)])
def test_rounds_of_many_clients_need_few_descriptors(tmp_path, kind, count):
    text = CROWD_TOML.replace("COUNT", str(count)).replace("KIND", kind)
    (tmp_path / "crowd.toml").write_text(text)
    (tmp_path / "crowd.py").write_text(CROWD)
    command = [sys.executable, "crowd.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == [str(count), "0"], done.stderr


LARGE = """
rounds = 1
[clients]
count = 24
[local]
steps = 1
batch_size = 4
[engine]
workers = 2
[[tasks]]
name = "large"
dataset = { kind = "synthetic", classes = 4, shape = [8, 8], train = 400, test = 20 }
model = { kind = "mlp", hidden = [1000, 1000] }
"""
SMALL_TASK = """
[[tasks]]
name = "small"
dataset = { kind = "synthetic", classes = 4, train = 400, test = 20 }
model = { kind = "mlp", hidden = [4] }
"""


def test_workers_sum_the_updates_of_large_models_and_the_bits_are_those_of_sums_formed_here(
    monkeypatch,
):
    monkeypatch.setattr("mmfl.engines.workers.ROOM", 1)
    experiment = Experiment.from_toml(LARGE)
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        before = reserved()
        jobs, params = first_jobs(engine, experiment)
        size = params["large"].layout.size
        together = []
        results = engine.train(jobs, params, merge=True)
        sums = list(partial_sums(together.append(result) or result for result in results))
        # Two chunks were formed by the workers; the third was shared, update by update.
        bare = [result.delta is None for result in together]
        assert bare == [True] * 2 * CHUNK + [False] * CHUNK
        alone = list(partial_sums(engine.train(jobs, params)))
        assert [part.examples for part in sums] == [part.examples for part in alone]
        pairs = zip(sums, alone, strict=True)
        assert all(ours.total.tobytes() == theirs.total.tobytes() for ours, theirs in pairs)
        # The weights, the two sums that are kept, an update for each worker, and one more.
        assert reserved() - before < (4 + 2 * 8 + 3 * 4) * size + 4 * MiB


def test_fingerprints_of_large_models_do_not_depend_on_the_engine():
    prints = set()
    for engine in ("engine.kind=inline", "engine.workers=2"):
        *_, (state, record) = mmfl.rounds(Experiment.from_toml(LARGE, sets=[engine, "rounds=2"]))
        prints.add(state.fingerprint)
        assert record.failures == ()
    assert len(prints) == 1


def test_a_large_model_does_not_make_the_slots_of_a_small_one_large():
    experiment = Experiment.from_toml(LARGE + SMALL_TASK, sets=["allocator=round_robin"])
    with closing(experiment.engine.open(experiment, data_dir=None)) as engine:
        jobs, params = first_jobs(engine, experiment)
        before = reserved()
        small = next(job for job in jobs if job.address.task == "small")
        # The longest is begun first, the first to be delivered last: all others wait for it.
        growing = [replace(small, work=replace(small.work, steps=steps)) for steps in range(1, 61)]
        results = list(engine.train(growing, params))
        assert [result.samples for result in results] == sorted(r.samples for r in results)
        assert reserved() - before < 4 * MiB
