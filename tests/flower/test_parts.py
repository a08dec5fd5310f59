"""The parts of a federation that need no processes: certificates, nodes' settings, events."""

from __future__ import annotations

import importlib
import shlex
import stat
import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.cli.build import build_fab_from_disk
from flwr.common.config import parse_config_args

import mmfl
from mmfl import Experiment
from mmfl.cli import app
from mmfl.engines.flower import NodeSettings
from mmfl.errors import EngineError, InputError
from mmfl.experiment import Flower
from mmfl.flower import NodeOptions, make_certificates, make_node_key, read_round, write_app
from mmfl.flower.events import EventWriter, follow_events
from mmfl.flower.processes import Process, end_all, find_free_ports, wait_for_port
from mmfl.flower.server_app import run_experiment
from support.experiments import write_small
from support.flower_grid import FakeGrid
from support.pages import DOCS, HOUSE, blocks


def test_certificates_are_signed_by_the_authority_and_private(tmp_path):
    make_certificates(tmp_path, ["127.0.0.1", "server.example"])
    authority, server = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
        for name in ("ca.crt", "server.pem")
    )
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "server.example"]
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    with pytest.raises(FileExistsError):
        make_certificates(tmp_path, ["x"])


def test_a_nodes_key_is_one_that_flower_takes(tmp_path):
    make_node_key(tmp_path / "node")
    private = load_ssh_private_key((tmp_path / "node").read_bytes(), None)
    public = load_ssh_public_key((tmp_path / "node.pub").read_bytes())
    assert private.public_key() == public
    assert public.curve.name == "secp384r1"


def test_a_nodes_options_survive_flowers_command_line(tmp_path):
    options = NodeOptions(3, "hospital:load", "a=2.5 b=inf", tmp_path, True)
    settings = NodeSettings.of(parse_config_args([options.config()]))
    assert settings == NodeSettings(
        3, "hospital:load", {"a": 2.5, "b": float("inf")}, tmp_path, True
    )
    with pytest.raises(InputError, match="quote"):
        NodeOptions(3, 'x"y').config()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own
def test_flower_packs_the_app(tmp_path):
    write_app(tmp_path / "app")
    components = tomllib.loads((tmp_path / "app/pyproject.toml").read_text())["tool"]["flwr"]
    assert set(components["app"]["components"]) == {"serverapp", "clientapp"}
    assert len(build_fab_from_disk(tmp_path / "app")) < 10_000


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(write_small("a", "b", top="rounds = 3", engine='kind = "flower"\npatience = 5'))
    return path


def test_a_server_app_stores_its_run_tells_what_happens_and_resumes(tmp_path, experiment):
    events = tmp_path / "events"
    config = {"experiment": str(experiment), "out": str(tmp_path / "run")}
    run = run_experiment(FakeGrid(4), config, EventWriter(str(events)))
    plain = Experiment.from_toml(write_small("a", "b", top="rounds = 3"))
    *_, (state, _) = mmfl.rounds(plain)
    assert run.fingerprint == state.fingerprint
    told = []
    for event in follow_events(events, lambda: None):
        told.append(event)
        if event.kind == "end":
            break
    assert [event.kind for event in told] == ["start", "round", "round", "round", "end"]
    record = read_round(told[2].values)
    assert (record.round, record.tasks, sum(record.clients.values())) == (2, ("a", "b"), 4)
    longer = experiment.read_text().replace("rounds = 3", "rounds = 5")
    experiment.write_text(longer)
    again = run_experiment(FakeGrid(4), config, EventWriter(str(tmp_path / "more")))
    assert again.rounds == 5
    assert (tmp_path / "more").read_text().count('"kind": "round"') == 2


def test_a_server_app_whose_nodes_do_not_come_says_so(tmp_path, experiment):
    experiment.write_text(experiment.read_text().replace("patience = 5", "patience = 0.1"))
    with pytest.raises(EngineError, match="only 1 client of the 4"):
        run_experiment(FakeGrid(1), {"experiment": str(experiment)}, EventWriter(""))
    assert not Path("runs").exists()


def test_a_program_that_cannot_start_is_one_sentence_with_its_last_line(tmp_path):
    (port,) = find_free_ports(1)
    command = ["flower-superlink", "--no-such-option"]
    process = Process("the SuperLink", command, tmp_path / "home", tmp_path / "log")
    process.start()
    try:
        with pytest.raises(EngineError, match=r"the SuperLink ended with code 2: .*no-such-option"):
            wait_for_port(port, process)
    finally:
        end_all([process])


def _check_command(words):
    """Refuse options that a command does not have."""
    if words[0] == "mmfl":
        command = typer.main.get_command(app)
        words = words[1:]
        while words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        command.make_context("mmfl", words)
        return
    parsers = {
        "flower-superlink": ("flwr.superlink.cli.flower_superlink", "_parse_args_run_superlink"),
        "flower-superexec": ("flwr.supercore.cli.flower_superexec", "_parse_args"),
    }
    module, function = parsers[words[0]]
    getattr(importlib.import_module(module), function)().parse_args(words[1:])


def test_the_containers_commands_and_syntax():
    folder = HOUSE / "examples/flower"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert set(services) == {"superlink", "superexec", "node0", "node1"}
    for service in services.values():
        _check_command(shlex.split(service["command"]))
        assert (folder / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    text = (folder / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV"}
    assert {line.split()[0] for line in lines} == known


def test_the_guides_commands_have_these_options():
    (page,) = [page for page in DOCS if page.name == "run-a-real-federation.md"]
    shown = [
        block.text.replace("\\\n", " ") for block in blocks(str(page.relative_to(HOUSE)), "bash")
    ]
    lines = [line.rstrip("& ") for text in shown for line in text.splitlines()]
    commands = [line for line in lines if line.startswith(("flower-superlink", "flower-superexec"))]
    assert len(commands) == 2
    for line in commands:
        _check_command(shlex.split(line))


def test_the_settings_of_the_engine_do_not_change_the_experiment():
    experiment = Experiment.from_toml(write_small())
    other = Experiment.from_toml(write_small(engine='kind = "flower"\nnodes = 2'))
    assert other.engine == Flower(nodes=2)
    assert other.digest == experiment.digest
