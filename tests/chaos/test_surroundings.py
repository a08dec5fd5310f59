"""The short version of ``chaos/surroundings.py``."""

from __future__ import annotations

import itertools

import pytest

from chaos.calls.run import warm_up
from chaos.surrounding_choices import Surroundings
from chaos.surroundings import COMMANDS, Box, Case, draw_case

FORKED = tuple(name for name in COMMANDS if name not in ("run with a worker", "compare"))


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Box:
    warm_up()
    return Box(tmp_path_factory.mktemp("box"), alone=False)  # other tests run at the same time


def test_a_case_is_fixed_by_seed_and_number():
    assert draw_case(3, 17) == draw_case(3, 17)
    drawn = [draw_case(3, number) for number in range(500)]
    assert {case.command for case in drawn} == {*COMMANDS}
    assert any(case.surroundings.cold for case in drawn)
    assert not all(case.surroundings.cold for case in drawn)


def test_forked_commands_keep_their_promises(box):
    cases = (draw_case(1, number, FORKED) for number in itertools.count())
    for case in itertools.islice((c for c in cases if not c.surroundings.cold), 6):
        broken, ended = box.examine(case)
        assert not broken, (case, ended)


@pytest.mark.slow
@pytest.mark.cold
def test_commands_keep_their_promises_from_their_start(box):
    cases = (draw_case(2, number) for number in itertools.count())
    for case in itertools.islice((c for c in cases if c.surroundings.cold), 8):
        broken, ended = box.examine(case)
        assert not broken, (case, ended)


@pytest.mark.parametrize(
    ("surroundings", "code"),
    [
        (Surroundings(), 0),
        (Surroundings(limits={"FSIZE": 100}), 2),
        (Surroundings(descriptors={"1": "full"}), 2),
        (Surroundings(descriptors={"2": "closed"}, umask=0o777), 0),
    ],
)
def test_the_surroundings_are_what_they_are_said_to_be(box, surroundings, code):
    broken, ended = box.examine(Case("run", surroundings))
    assert (broken, ended.code) == ([], code)


def test_a_command_that_touches_other_files_is_found_out(box, monkeypatch):
    monkeypatch.setitem(COMMANDS, "check", ("schema", "--out", "ROOT/outside/x"))
    monkeypatch.setattr("mmfl.cli.main", touch_and_fail)
    monkeypatch.setattr(box, "_plain", lambda *_: "")
    broken, _ = box.examine(Case("check", Surroundings()))
    assert broken[:2] == ["exit code 3 without a sentence", "touched start/new"]


def touch_and_fail() -> None:
    with open("new", "w") as file:
        file.write("x")
    raise SystemExit(3)
