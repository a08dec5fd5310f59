"""Whether anybody answers at an address."""

from __future__ import annotations

import socket

__all__ = ["answers", "is_loopback", "split_address"]


def split_address(address: str) -> tuple[str, int]:
    """Host and port.

    >>> split_address("[::1]:6379")
    ('::1', 6379)
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant."""
    return host in ("localhost", "::1") or host.startswith("127.")


def answers(host: str, port: int, patience: float = 5.0) -> bool:
    """Whether a connection is accepted there."""
    try:
        socket.create_connection((host, port), timeout=patience).close()
    except (OSError, OverflowError):
        return False
    return True
