"""``[recruitment]``: the auction before round one, and what clients ask for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

import numpy as np

from mmfl.config import Family, component
from mmfl.errors import InputError, did_you_mean
from mmfl.market import MECHANISMS, Bids, Mechanism, simulated_bids
from mmfl.market.bids_io import DISTRIBUTIONS, Correlation, Csv, Distribution, bytes_needed, ids_of
from mmfl.system.files import TABLE, hash_input
from mmfl.system.memory import Need, refuse

__all__ = ["BIDS", "RecruitmentSettings"]

BIDS = Family(
    name="source of bids",
    table={**DISTRIBUTIONS.table, "csv": Csv},
    needs=(),
    optional=True,
    own="a DataFrame of bids is written with bids.to_csv('bids.csv', index_label='client'), and "
    "read with bids = {'kind': 'csv', 'path': 'bids.csv'}",
)


@component
class RecruitmentSettings:
    """``[recruitment]``: who agrees to train what, and for how much.

    Attributes:
        mechanism: The auction, e.g. ``{ kind = "max_min_fair", budget = 29.0 }``.
        bids: What clients ask for: a CSV file, or a bid model for all tasks not listed in `tasks`.
        tasks: Bid models of individual tasks, by task name.
        correlation: Correlation between a client's simulated bids for any two tasks.
        fraction: What a fractional winner does. With "probability", it is available for the task in
            each round with probability x. With "work", it is always available but does only the
            share x of the local work.
        dropouts: With "paid", a winner is paid even if its turns fail. With "unpaid", it is paid
            for the share of its turns that were accepted. A winner that never gets a turn is paid,
            unless it holds no data for the task.
        empty: What to do if no recruited client could train a task. "stop" ends the run before
            round one. "leave_out" warns: the task keeps its initial model, and the auction is run
            again for the others.
    """

    mechanism: Annotated[Mechanism, MECHANISMS]
    bids: Annotated[Any, BIDS] = None
    tasks: dict[str, Annotated[Distribution, DISTRIBUTIONS]] = field(
        default_factory=dict, hash=False
    )
    correlation: Correlation = 0.0
    fraction: Literal["probability", "work"] = "probability"
    dropouts: Literal["paid", "unpaid"] = "paid"
    empty: Literal["stop", "leave_out"] = "stop"

    def __post_init__(self) -> None:
        if isinstance(self.bids, Csv) and (self.tasks or self.correlation):
            key = "tasks" if self.tasks else "correlation"
            raise ValueError(f"takes the bids from a file, so {key} cannot be set")

    def check_tasks(self, names: Sequence[str]) -> None:
        """Refuse models for tasks that do not exist, and tasks without a model."""
        for name in self.tasks:
            if name not in names:
                near = _near(name, names)
                raise ValueError(f"recruitment.tasks: no task is called {name!r}; {near}")
        missing = [name for name in names if name not in self.tasks]
        if self.bids is None and missing:
            raise ValueError(f"recruitment needs bids, or a bid model for task {missing[0]!r}")

    def files(self) -> dict[str, str]:
        """The SHA-256 of the file that bids come from, if they do."""
        if not isinstance(self.bids, Csv):
            return {}
        try:
            return {"recruitment.bids": hash_input(self.bids.path, limit=TABLE)}
        except OSError as error:
            said = f"cannot read {self.bids.path!r}: {error.strerror}"
            raise InputError(f"recruitment.bids: {said}") from None

    def collect_bids(
        self,
        tasks: Sequence[str],
        clients: Sequence[int],
        seed: int,
        names: Sequence[str] | None = (),
    ) -> Bids:
        """The bids of these clients for these tasks.

        Args:
            tasks: The tasks.
            clients: The clients' numbers.
            seed: Of simulated bids.
            names: What the data calls the first clients, in order. None = the data is not known:
                clients that go by name in a file are taken as they are.
        """
        what = f"clients.count = {len(clients):,} with an auction of {len(tasks)} tasks"
        refuse([Need(what, bytes_needed(len(clients), len(tasks)))])
        if isinstance(self.bids, Csv):
            try:
                return _match_bids(self.bids.read(), tasks, clients, self.bids.path, names)
            except InputError as error:
                raise InputError(f"recruitment.bids: {error}") from None
        models = {task: self.tasks.get(task, self.bids) for task in tasks}
        return simulated_bids(models, clients, correlation=self.correlation, seed=seed)


def _near(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names)


def _match_bids(
    given: Bids,
    tasks: Sequence[str],
    clients: Sequence[int],
    path: str,
    names: Sequence[str] | None,
) -> Bids:
    """The rows and columns of a file in an experiment's order; clients not in it are unwilling.

    Columns and tasks must be the same; so must rows and clients, if the file does not name them.
    """
    for name in given.tasks:
        if name not in tasks:
            raise InputError(f"{path}: column {name!r} is not a task; {_near(name, tasks)}")
    for name in tasks:
        if name not in given.tasks:
            raise InputError(f"{path}: has no column for task {name!r}")
    columns = [given.tasks.index(name) for name in tasks]
    if isinstance(given.clients, range) and len(given.clients):
        if len(given.clients) != len(clients):
            raise InputError(
                f"{path}: has {len(given.clients)} rows for {len(clients)} clients; a first column "
                "'client' can say whose they are"
            )
        return Bids(given.values[:, columns], clients, tuple(tasks))
    whole = all(isinstance(client, int) for client in given.clients)
    if names is None and not whole:
        return Bids(given.values[:, columns], given.clients, tuple(tasks))
    known = ids_of(clients)
    places = {name: place for place, name in enumerate(names or ())}
    if places and (not whole or all(str(client) in places for client in given.clients)):
        strangers = [str(client) for client in given.clients if str(client) not in places]
        if strangers:
            raise InputError(
                f"{path}: client {strangers[0]!r} is not in the experiment; "
                f"{did_you_mean(strangers[0], list(places))}"
            )
        ids = known[[places[str(client)] for client in given.clients]]
    elif not whole:
        odd = next(name for name in given.clients if not re.fullmatch(r"0|[1-9]\d*", str(name)))
        raise InputError(f"{path}: client {odd!r} is not in the experiment (whole numbers)")
    else:
        ids = np.array(given.clients, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    strange = np.flatnonzero(known[place] != ids)
    if len(strange):
        raise InputError(
            f"{path}: client {ids[strange[0]]} is not in the experiment ({known[0]} to {known[-1]})"
        )
    values = np.full((len(known), len(tasks)), np.inf)
    values[place] = given.values[:, columns]
    return Bids(values, clients, tuple(tasks))
