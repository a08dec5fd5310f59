"""Clients that go by name, such as hospitals: the same name is the same client in every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mmfl.data.arrays import Arrays
from mmfl.data.tables import sort_names

__all__ = ["match_clients"]


def match_clients(arrays: Mapping[str, Arrays]) -> tuple[dict[str, Arrays], bool]:
    """Data sets in which a name has the same number, and whether the names differed.

    Data sets whose groups have no names are left as they are.

    Args:
        arrays: By task.
    """
    named = {task: data.group_names for task, data in arrays.items() if data.group_names}
    if len(set(named.values())) < 2:
        return dict(arrays), False
    names = sort_names(name for some in named.values() for name in some)
    places = {name: place for place, name in enumerate(names)}
    made = dict(arrays)
    for task, some in named.items():
        numbers = np.array([places[name] for name in some], np.int64)
        data = arrays[task]
        assert data.groups is not None
        made[task] = replace(data, groups=numbers[data.groups], group_names=names)
    return made, True
