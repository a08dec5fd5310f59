"""Real federations on the loopback: processes of Flower's, TLS, keys, and processes that die."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import MmflWarning
from mmfl.flower import LocalFederation, NodeOptions, read_round
from mmfl.runs import Run
from support.experiments import write_small

# ruff: noqa: T201  (what is printed is the measurement: pytest -s)
pytestmark = [pytest.mark.engines, pytest.mark.cold]

RECRUITED = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 2.0 }
"""


def write(path, more="", rounds=4, engine="", **keys):
    text = write_small(
        "a", "b", top=f"rounds = {rounds}", engine=f'kind = "flower"\n{engine}', **keys
    )
    path.write_text(text + more)
    return path


def reference(path):
    text = path.read_text().partition("[engine]")
    experiment = Experiment.from_toml(text[0] + "[[tasks]]" + text[2].partition("[[tasks]]")[2])
    *_, (state, _) = mmfl.rounds(experiment)
    return state.fingerprint


def play(federation, path, out, act=None, **config):
    """All rounds of a run, and how long each took; `act` is called after each."""
    records, started = [], time.monotonic()
    for event in federation.run(path, out=str(out), **config):
        if event.kind == "round":
            record = read_round(event.values)
            print(f"round {record.round}: {record.seconds:.1f} s, {record.failures}")
            records.append(record)
            if act is not None:
                act(record.round)
    print(f"{len(records)} rounds in {time.monotonic() - started:.1f} s")
    return records


@pytest.fixture(scope="module")
def federation():
    options = [NodeOptions(client) for client in range(4)]
    with LocalFederation(options, tls=True) as federation:
        yield federation
        folder, port = federation.folder, int(federation.address.rpartition(":")[2])
        processes = [federation.superlink, federation.superexec, *sum(federation.nodes, ())]
    assert not folder.exists()
    assert all(process.ended for process in processes)
    assert _children_in(folder) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def _children_in(folder):
    """Processes whose environment names a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and str(folder) in (
                process / "environ"
            ).read_bytes().decode(errors="replace"):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("more", ["", RECRUITED], ids=["plain", "recruited"])
def test_parity_over_tls(federation, tmp_path, more):
    path = write(tmp_path / "small.toml", more)
    records = play(federation, path, tmp_path / "run")
    assert [record.failures for record in records] == [()] * 4
    assert Run.load(tmp_path / "run").fingerprint == reference(path)


def test_parity_where_clients_score_the_tasks(federation, tmp_path):
    text = write(tmp_path / "small.toml", rounds=2).read_text()
    path = tmp_path / "small.toml"
    path.write_text(f'score_source = "clients"\n{text}')
    play(federation, path, tmp_path / "run")
    assert Run.load(tmp_path / "run").fingerprint == reference(path)


def test_a_server_app_that_is_killed_resumes_exactly(federation, tmp_path):
    path = write(tmp_path / "small.toml")
    killed = []

    def kill(t):
        if t == 2 and not killed:
            killed.append(time.monotonic())
            os.kill(federation.server_app, signal.SIGKILL)

    with pytest.warns(MmflWarning, match="the ServerApp ended; it is started again"):
        records = play(federation, path, tmp_path / "run", kill)
    assert records[-1].round == 4
    assert Run.load(tmp_path / "run").fingerprint == reference(path)


def test_a_superlink_that_is_killed_comes_back(federation, tmp_path):
    path = write(tmp_path / "small.toml", engine="timeout = 90")

    def kill(t):
        if t == 2:
            federation.superlink.signal(signal.SIGKILL)

    with pytest.warns(MmflWarning, match="the SuperLink was ended by signal 9"):
        records = play(federation, path, tmp_path / "run", kill)
    assert [record.round for record in records] == [1, 2, 3, 4]


def test_a_node_without_a_registered_key_is_refused(federation, tmp_path):
    federation._options.append(NodeOptions(0))
    federation._ports.append(federation._ports[-1] + 1)
    federation.add_node(4, register=False)
    pair = federation.nodes.pop()
    try:
        until = time.monotonic() + 60
        while not pair[0].ended and time.monotonic() < until:
            time.sleep(0.5)
        log = pair[0].log.read_text()
    finally:
        for one in pair:
            one.signal(signal.SIGKILL)
    print(log[-600:])
    assert pair[0].ended
    assert "SuperNode ID" not in log


def test_a_node_that_is_killed_costs_turns_and_not_the_run(federation, tmp_path):
    path = write(tmp_path / "small.toml", rounds=4)

    def kill(t):
        if t == 1:
            for one in federation.nodes[2]:
                one.signal(signal.SIGKILL)

    with pytest.warns(MmflWarning, match="the node of client 2 was ended by signal 9"):
        records = play(federation, path, tmp_path / "run", kill)
    failures = [failure for record in records for failure in record.failures]
    assert {(f.address.client, f.reason) for f in failures} <= {(2, "dropout")}
    assert [record.round for record in records] == [1, 2, 3, 4]
    assert records[-1].active == 3
