"""The input of the auction commands: a file with bids, and a mechanism with its options."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mmfl.cli.shared.options import name_file, name_options_of
from mmfl.comparison import read_seeds
from mmfl.config import dump, read_text_file, read_toml, short
from mmfl.errors import ConfigError, InputError, did_you_mean
from mmfl.experiment import Experiment, find_inputs, find_own_code
from mmfl.market import MECHANISMS, Bids, Market, Mechanism, ValueThreshold, read_bids
from mmfl.market.bids_io import Csv

__all__ = ["FIXED", "Options", "Source", "contenders", "kind_of", "parse_amounts", "parse_numbers"]

FIXED = ("budget_fair", "greedy_within_budget", "random_within_budget")
"""Mechanisms that give each task a fixed share of the budget."""

_MISSING = {
    "budget": "{} needs a budget: add --budget, such as --budget 29",
    "threshold": "{} needs a price to post: add --threshold, such as --threshold 0.5",
}
"""The messages for missing options of a mechanism."""

_NOT_DRAWN = "{}: the bids come from a file, so nothing is drawn; leave it out"

_ORDER = (
    "max_min_fair",
    "gmm_fair",
    "budget_fair",
    "greedy_within_budget",
    "random_within_budget",
    "value_threshold",
)


def kind_of(mechanism: Mechanism) -> str:
    """The name of a mechanism."""
    return MECHANISMS.kind_of(mechanism)


@dataclass(frozen=True)
class Options:
    """The options of a mechanism that were given on the command line."""

    budget: float | None = None
    payment: str | None = None
    integer: bool = False
    threshold: float | None = None
    seed: int | None = None

    def mechanism(self, kind: str, own: dict[str, Any] | None = None) -> Mechanism:
        """The mechanism that they describe; options that it does not have are refused.

        `own`: the options of an experiment's mechanism of this kind, unless given.
        """
        if kind not in MECHANISMS.table:
            near = did_you_mean(kind, MECHANISMS.table)
            raise InputError(f"--mechanism: unknown mechanism {kind!r}; {near}")
        cls = MECHANISMS.table[kind]
        known = {field.name for field in dataclasses.fields(cls)}
        given = {"budget": self.budget, "payment": self.payment, "threshold": self.threshold}
        for name, value in given.items():
            if value is not None and name not in known:
                raise InputError(f"--{name}: {kind} has no {name}; leave it out")
        if self.integer and "fractional" not in known:
            raise InputError(
                f"--integer has no effect: {kind} never recruits fractions; leave it out"
            )
        _check_amount(self.budget, "--budget")
        _check_amount(self.threshold, "--threshold")
        options = {**(own or {}), **{k: v for k, v in given.items() if v is not None}}
        for name in ("budget", "threshold"):
            if name in known and name not in options:
                raise InputError(_MISSING[name].format(kind))
        if self.integer:
            options["fractional"] = False
        if "seed" in known and self.seed is not None:
            options["seed"] = self.seed
        try:
            made: Mechanism = cls(**options)
        except InputError as error:
            raise InputError(f"--{str(error).partition(': ')[2]}") from None
        return made


@dataclass(frozen=True)
class Source:
    """Where bids come from: a CSV file, a market, or an experiment with ``[recruitment]``."""

    path: Path
    market: Market | Experiment | None

    @classmethod
    def of(cls, path: Path, *, allow_imports: bool = False) -> Source:
        """Look at the file; a CSV file is read later."""
        if path.suffix.lower() != ".toml":
            return cls(path, None)
        text = read_text_file(path)
        try:
            table = read_toml(text)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        if not {"rounds", "recruitment"} & table.keys():
            return cls(path, Market.load(path, allow_imports=allow_imports))
        experiment = Experiment.load(path, allow_imports=allow_imports)
        if experiment.recruitment is None:
            raise InputError(f"{path}: the experiment has no [recruitment], so there are no bids")
        return cls(path, experiment)

    @property
    def inputs(self) -> list[Path]:
        """The files that must not be written into: the input, and what it names."""
        if isinstance(self.market, Experiment):
            return [self.path, *find_inputs(self.market)]
        return [self.path, *([] if self.market is None else find_own_code(self.market))]

    def mechanism(self, kind: str | None, options: Options) -> Mechanism:
        """The requested mechanism; by default the experiment's, or max_min_fair."""
        own = getattr(getattr(self.market, "recruitment", None), "mechanism", None)
        if own is not None and kind in (None, kind_of(own)):
            if kind_of(own) not in MECHANISMS.table and options == Options():
                return cast("Mechanism", own)  # the user's own
            return options.mechanism(kind_of(own), dump(own))
        return options.mechanism("max_min_fair" if kind is None else kind)

    @property
    def _is_given(self) -> bool:
        """Whether the bids come from a file, so that none are drawn."""
        own = getattr(self.market, "recruitment", None)
        return self.market is None or isinstance(getattr(own, "bids", None), Csv)

    def bids(self, seed: int | None, *, needed: bool) -> Bids:
        """The bids; `needed`: whether a seed is used even if the bids are in a file."""
        if self._is_given and seed is not None and not needed:
            raise InputError(_NOT_DRAWN.format("--seed"))
        if self.market is None:
            return read_bids(self.path)
        return self._draw(self.market.seed if seed is None else seed)

    def tables(self, seeds: str | None) -> dict[int | None, Bids]:
        """Bids by seed; those of a CSV file have none."""
        if self._is_given and seeds is not None:
            raise InputError(_NOT_DRAWN.format("--seeds"))
        if self.market is None:
            return {None: read_bids(self.path)}
        with name_options_of("seeds"):
            numbers = (self.market.seed,) if seeds is None else read_seeds(seeds)
        return {seed: self._draw(seed) for seed in numbers}

    def _draw(self, seed: int) -> Bids:
        with name_file(self.path):
            if isinstance(self.market, Market):
                return self.market.bids(seed)
            assert self.market is not None
            assert self.market.recruitment is not None
            names = [task.name for task in self.market.tasks]
            clients = range(self.market.clients.count)
            return self.market.recruitment.collect_bids(names, clients, seed, names=None)


def contenders(
    kinds: str | None, payment: str | None, threshold: str | None
) -> dict[str, Mechanism]:
    """Mechanisms by the names that the tables show; their budgets are set later."""
    prices = parse_amounts(threshold, "--threshold") if threshold is not None else []
    wanted = list(_ORDER) if kinds is None else [kind.strip() for kind in kinds.split(",")]
    if prices and "value_threshold" not in wanted:
        raise InputError("--threshold: value_threshold is not among the mechanisms")
    if payment is not None and not {"budget_fair", "max_min_fair"} & set(wanted):
        raise InputError("--payment: none of the mechanisms has a choice of payment rules")
    found: dict[str, Mechanism] = {}
    for place, kind in enumerate(wanted):
        if kind in wanted[:place]:
            raise InputError(f"--mechanism: {kind} is given twice")
        if kind == "value_threshold":
            if kinds and not prices:
                raise InputError(_MISSING["threshold"].format(kind))
            found |= {f"value_threshold {p:g}": ValueThreshold(p) for p in prices}
            continue
        rule = payment if kind in ("budget_fair", "max_min_fair") else None
        found[kind] = Options(1.0, rule).mechanism(kind)
        if kind == "max_min_fair":
            found[f"{kind} integer"] = Options(1.0, rule, integer=True).mechanism(kind)
    return found


def parse_amounts(text: str, option: str) -> list[float]:
    """Amounts from "10,20,29", "1-60" (whole steps) or both."""
    found = parse_numbers(text, option, "amounts like 10,20,29 or 1-60")
    for amount in found:
        _check_amount(amount, option)
    return found


def _check_amount(amount: float | None, option: str) -> None:
    """Refuse an amount that cannot be a budget or a price."""
    if amount is not None and not 0 < amount < float("inf"):
        raise InputError(f"{option} must be a finite number greater than 0, got {amount:g}")


def parse_numbers(text: str, option: str, such: str) -> list[float]:
    """Numbers from "1,2.5,inf", "1-5" (whole steps) or both; `such` says what is asked for."""
    found: list[float] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,15})\s*-\s*(\d{1,15})\s*", part)
        if ends and int(ends[1]) <= int(ends[2]) < int(ends[1]) + 10_000:
            found += map(float, range(int(ends[1]), int(ends[2]) + 1))
            continue
        try:
            found.append(float(part))
        except ValueError:
            raise InputError(f"{option} takes {such}, got {short(text)}") from None
    return found
