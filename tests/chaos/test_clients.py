"""Bad replies, one client in ten: no run ends, no model is ruined by what the checks can know."""

from __future__ import annotations

import pytest

from chaos.clients import KINDS, TWICE, try_kind

ACCEPTED = {"none", "replay", "sign-flipped", "false reported loss (1e9)"}


@pytest.fixture(scope="module")
def clean() -> dict:
    return try_kind("none")


@pytest.mark.parametrize("kind", [*KINDS, TWICE])
def test_a_bad_reply_costs_the_client_its_turn_and_nobody_else_anything(kind, clean):
    found = try_kind(kind)
    assert found["rounds"] == 4
    assert found["finite"]
    if kind == "scaled update":  # in one round of four it is just below checks.max_norm
        assert found["reasons"] == ["norm"]
        return
    assert found["refused"] == (0 if kind in ACCEPTED else 3 if "earlier message" in kind else 4)
    assert found["final accuracy"] == pytest.approx(clean["final accuracy"], abs=0.06)
