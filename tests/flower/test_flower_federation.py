"""Real federations on the loopback: processes of Flower's, TLS, keys, and processes that die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import MmflWarning
from mmfl.flower import LocalFederation, NodeOptions, read_round
from mmfl.flower.processes import end_all, find_free_ports
from mmfl.runs import Run
from support.bad_replies import BAD
from support.experiments import write_small
from support.pages import HOUSE

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


@pytest.mark.parametrize("what", ["replies", "forged"])
def test_a_hostile_node_never_ends_a_run(federation, tmp_path, monkeypatch, what):
    """One bad reply after the other, over the real wire: each costs its client its turn."""
    from support.hostile_node import FORGED, NAMES

    names = FORGED if what == "forged" else NAMES

    _supernode, worker = federation.nodes[3]
    worker.signal(signal.SIGKILL)
    worker.wait(5)
    address = worker.command[-1]
    notes = tmp_path / "notes"
    command = [
        sys.executable,
        str(HOUSE / "tests/support/hostile_node.py"),
        address,
        str(notes),
        what,
    ]
    env = os.environ | {"PYTHONPATH": str(HOUSE / "tests"), "FLWR_TELEMETRY_ENABLED": "0"}
    monkeypatch.setattr(worker, "_child", None)
    path = write(tmp_path / "small.toml", rounds=len(names), engine="timeout = 20")
    with (tmp_path / "log").open("w") as log:
        hostile = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            records = play(federation, path, tmp_path / "run")
        finally:
            hostile.kill()
            hostile.wait(10)
            monkeypatch.undo()
            worker.start()
    print((tmp_path / "log").read_text()[-2000:])
    assert notes.read_text().splitlines() == names
    failures = {record.round: record.failures for record in records}
    found = {name: [f.reason for f in failures[t]] for t, name in enumerate(names, 1)}
    if what == "forged":  # the SuperLink may refuse to store it, so that no reply ever comes
        found = {
            name: ["malformed" if r == "timeout" else r for r in found[name]] for name in names
        }
    assert found == {name: [BAD[name][0]] for name in names}
    assert {f.address.client for some in failures.values() for f in some} == {3}


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
    federation._ports += find_free_ports(1)
    federation.add_node(4, register=False)
    pair = federation.nodes.pop()
    try:
        pair[0].wait(60)
        log = pair[0].log.read_text()
        how = pair[0].ended
    finally:
        end_all(pair)
    print(log[-600:])
    assert how
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


def test_ctrl_c_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = write(tmp_path / "small.toml", rounds=50)
    command = [sys.executable, "-m", "mmfl", "flower", "up", str(path), "--nodes", "1"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            until = time.monotonic() + 120
            while "/50  a" not in (tmp_path / "log").read_text() and time.monotonic() < until:
                time.sleep(0.5)
            (folder,) = (tmp_path / "temporary").glob("mmfl-flower-*")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
    assert "resume the run with --resume --out runs/small" in (tmp_path / "log").read_text()
    assert not folder.exists()
    assert _children_in(folder) == []
    assert Run.load("runs/small").rounds >= 1
