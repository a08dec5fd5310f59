"""Simulated bids: a distribution for each task, independent or correlated across tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from mmfl.config import (
    Count,
    Natural,
    component,
    imports_allowed,
    parse,
    read_text_file,
    read_toml,
    short,
)
from mmfl.errors import ConfigError, InputError
from mmfl.market.bids import Bids
from mmfl.market.bids_io.distributions import DISTRIBUTIONS, Distribution
from mmfl.rng import stream
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import guard_part

__all__ = ["Correlation", "Market", "bytes_needed", "ids_of", "simulated_bids"]

Correlation = Annotated[float, Strict(), Field(ge=0, le=1)]


def simulated_bids(
    tasks: Mapping[str, Distribution],
    clients: Sequence[int],
    *,
    correlation: float = 0.0,
    seed: int = 0,
) -> Bids:
    """Bids by addressed random numbers: a client's bid for a task depends on no other client.

    With `correlation` rho, a client that asks much for one task tends to ask much for all: a
    Gaussian copula, whose normal scores have correlation rho between any two tasks.

    Args:
        tasks: From task name to what clients ask for it.
        clients: Their ids.
        correlation: rho in [0, 1].
        seed: Of all draws.
    """
    if not tasks:
        raise InputError("bids need at least one task")
    if not 0 <= correlation <= 1:
        raise InputError(f"correlation must be between 0 and 1, got {short(correlation)}")
    ids = ids_of(clients)
    if len(ids) and (ids.ndim != 1 or ids.dtype.kind not in "iu"):
        raise InputError(f"clients must be whole numbers, got {short(clients)}")
    common = None if correlation == 0 else _scores(_uniform(seed, ids))
    columns = []
    for name, model in tasks.items():
        u = _uniform(seed, ids, name)
        if common is not None:
            u = _mix(common, u, correlation)
        with guard_part("bid model", model, task=name, kind=InputError):
            columns.append(model.quantile(u))
    return Bids(np.stack(columns, axis=1), clients, tuple(tasks))


def ids_of(clients: Sequence[int]) -> Any:
    """Clients' ids as an array; of a range without counting it through."""
    if isinstance(clients, range):
        return np.arange(clients.start, clients.stop, clients.step, dtype=np.int64)
    return np.asarray(clients)


def bytes_needed(clients: int, tasks: int) -> int:
    """The least memory an auction needs: the bids three times, or bids, shares and payments."""
    return clients * (24 * tasks + 16)


def _uniform(seed: int, ids: Any, *path: str) -> Any:
    """In the open interval (0, 1): the middles of the 2^53 cells of [0, 1), kept below 1."""
    return np.minimum(stream(seed, "bids", *path).at(ids) + 2.0**-54, 1 - 2.0**-53)


def _scores(u: Any) -> Any:
    from scipy.special import ndtri

    return ndtri(u)


def _mix(common: Any, u: Any, rho: float) -> Any:
    from scipy.special import ndtr

    mixed = ndtr(math.sqrt(rho) * common + math.sqrt(1 - rho) * _scores(u))
    return np.clip(mixed, 2.0**-54, 1 - 2.0**-53)


@component
class Market:
    """Clients and what they ask, as a separate file: the auctions of Experiment 5.

    Attributes:
        clients: How many there are.
        tasks: From task name to what clients ask for it.
        correlation: Between any two tasks, see `simulated_bids`.
        seed: Of all draws.
    """

    clients: Count
    tasks: dict[str, Annotated[Distribution, DISTRIBUTIONS]] = field(hash=False)
    correlation: Correlation = 0.0
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError("tasks: at least one task is needed, as [tasks.NAME]")

    @classmethod
    def load(cls, path: str | Path, *, allow_imports: bool = False) -> Market:
        """A market from a TOML file; a mistake in it is one sentence.

        Args:
            path: The file.
            allow_imports: Whether ``package.module:Name`` may be imported.
        """
        text = read_text_file(path)
        try:
            with imports_allowed(allow_imports):
                return parse(cls, read_toml(text))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error.__cause__

    def bids(self, seed: int | None = None) -> Bids:
        """The bids, or those of another seed."""
        what = f"clients = {self.clients:,} with an auction of {len(self.tasks)} tasks"
        refuse([Need(what, bytes_needed(self.clients, len(self.tasks)))])
        return simulated_bids(
            self.tasks,
            range(self.clients),
            correlation=self.correlation,
            seed=self.seed if seed is None else seed,
        )
