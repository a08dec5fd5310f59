"""Which cases of a test `make test` leaves to `make test-slow`."""

from __future__ import annotations

import pytest

__all__ = ["slow"]


def slow(*values: object) -> object:
    """A case of `parametrize` that is marked as slow."""
    return pytest.param(*values, marks=pytest.mark.slow)
