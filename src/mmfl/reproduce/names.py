"""Claims and panels name settings, variants, tasks and quantities: a study must have them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mmfl.errors import ConfigError, did_you_mean
from mmfl.reproduce.auctions import AuctionStudy
from mmfl.reproduce.quantities import find_quantity

__all__ = ["check_study_names"]


def check_study_names(study: Any) -> None:
    """Refuse a study whose claims or panels name what it does not have: they would be left out."""
    for key in ("claims", "panels"):
        for number, item in enumerate(getattr(study, key)):
            try:
                _check(item, study)
            except ConfigError as error:
                raise ConfigError(f"{key}[{number}]: {error}") from None


def _check(item: Any, study: Any) -> None:
    for name in _names(item, "setting", "settings"):
        _refuse_unknown("setting", name, study.settings)
        here: Any = study.settings[name]
        for variant in _names(item, "of", "over", "variant", "variants"):
            _refuse_unknown("variant", variant, getattr(here, "variants", None) or study.variants)
        for task in _names(item, "task"):
            _refuse_unknown("task", task, here.tasks)
        for quantity in _names(item, "quantity", "quantities"):
            find_quantity(quantity)
            if named := re.match(
                r"(?:task|turns) (.+?)(?: over rounds| at (?:budget )?\d+)?$", quantity
            ):
                _refuse_unknown("task", named[1], here.tasks)
            _check_budget(quantity, study)


def _check_budget(quantity: str, study: Any) -> None:
    at = re.search(r" at budget (\d+)$", quantity)
    if at is None:
        return
    most = study.budgets if isinstance(study, AuctionStudy) else 0
    if not 1 <= int(at[1]) <= most:
        rule = f"must be at a budget from 1 to {most}" if most else "needs a study of budgets"
        raise ConfigError(f"quantity {quantity!r} {rule}")


def _names(item: Any, *fields: str) -> Iterator[str]:
    for field in fields:
        value = getattr(item, field, None) or ()
        yield from (value,) if isinstance(value, str) else value


def _refuse_unknown(what: str, name: str, known: Collection[str] | Mapping[str, Any]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}; {did_you_mean(name, known)}")
