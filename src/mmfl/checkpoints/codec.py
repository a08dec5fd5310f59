"""The loop's state as JSON and safetensors, and back to the very bits.

JSON has None, booleans, whole numbers, text, lists, and finite floats (which Python writes so that
they are read back exactly). Everything else is an object with one key that names it:

    {"float": "nan"}                     also "inf", "-inf"
    {"tuple": [...]}   {"set": [...]}    {"table": [[key, value], ...]}
    {"array": name}    {"scalar": name}  in the file `arrays`, by name
    {"params": [layout, name]}           weights, as one flat array
    {"measured": [...]}                  a `Measured`
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from mmfl.client_table import ClientTable, Stretch
from mmfl.errors import StoreError
from mmfl.evaluate import Measured
from mmfl.params import Layout, Params
from mmfl.state import State

__all__ = ["Parts", "decoded", "encoded", "model_file"]

Array = npt.NDArray[Any]
Parts = dict[str, tuple[object, Callable[[], bytes]]]
"""From a file's name to what it is made of, and how: who holds the same object has the file."""

_APART = ("params", "clients")
_KINDS = [
    np.dtype(kind)
    for kind in ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d"]
]


def encoded(state: State) -> tuple[dict[str, Any], Parts]:
    """A state as a JSON document and the files that belong to it."""
    arrays: dict[str, Array] = {}
    fields = [field.name for field in dataclasses.fields(state) if field.name not in _APART]
    document = {
        "fields": {name: _plain(getattr(state, name), arrays, name) for name in fields},
        "layouts": {task: weights.layout.entries for task, weights in state.params.items()},
        "clients": list(state.clients.tasks),
    }
    parts: Parts = {}
    for task, weights in state.params.items():
        parts[f"model-{task}"] = (weights, partial(model_file, task, weights))
    parts["clients"] = (state.clients, lambda: save(state.clients.whole._asdict()))
    if arrays:
        parts["arrays"] = (state, lambda: save(arrays))
    return document, parts


def decoded(document: Mapping[str, Any], read: Callable[[str], bytes]) -> State:
    """The state; what is malformed raises some exception or other.

    Args:
        document: As `encoded` gave it.
        read: From a file's name to its content.
    """
    cache: dict[str, Array] = {}

    def array(name: str) -> Array:
        if not cache:
            cache.update(load(read("arrays")))
        return cache[name]

    params = {}
    for task, entries in document["layouts"].items():
        layout = Layout.of(entries)
        params[task] = Params.pack(layout, load(read(f"model-{task}")))
    clients = load(read("clients"))
    whole = Stretch._make(clients[name] for name in Stretch._fields)
    fields = {name: _value(item, array) for name, item in document["fields"].items()}
    table = ClientTable(tuple(document["clients"]), (whole,) if len(whole.ids) else ())
    return State(params=params, clients=table, **fields)


def model_file(task: str, weights: Params) -> bytes:
    """A task's weights as a safetensors file, by tensor name."""
    return save(dict(weights.items()), metadata={"task": task})


def _plain(value: Any, arrays: dict[str, Array], where: str) -> Any:
    """A value as JSON can hold it; arrays go by name."""
    if value is None or isinstance(value, str) or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Params):
        entries = [[name, list(shape)] for name, shape in value.layout.entries]
        return {"params": [entries, _named(value.flat, arrays)]}
    if isinstance(value, np.ndarray | np.generic) and value.dtype in _KINDS:
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {kind: _named(np.asarray(value), arrays)}
    if isinstance(value, Measured):
        return {"measured": [_plain(v, arrays, where) for v in dataclasses.astuple(value)]}
    if type(value) is list:
        return [_plain(item, arrays, where) for item in value]
    if type(value) is tuple:
        return {"tuple": [_plain(item, arrays, where) for item in value]}
    if isinstance(value, frozenset | set):
        return {"set": sorted(_plain(item, arrays, where) for item in value)}
    if isinstance(value, Mapping):
        pairs = value.items()
        return {"table": [[_plain(k, arrays, where), _plain(v, arrays, where)] for k, v in pairs]}
    raise StoreError(
        f"a checkpoint cannot hold the state of {where!r}: it has a {type(value).__name__}, and "
        "may have None, numbers, text, lists, tuples, sets, dictionaries and NumPy arrays"
    )


def _named(array: Array, arrays: dict[str, Array]) -> str:
    name = str(len(arrays))
    arrays[name] = array if array.flags.c_contiguous else array.copy(order="C")
    return name


def _value(item: Any, array: Callable[[str], Array]) -> Any:
    """The inverse of `_plain`."""
    if isinstance(item, list):
        return [_value(inner, array) for inner in item]
    if not isinstance(item, dict):
        return item
    ((kind, inner),) = item.items()
    match kind:
        case "float":
            return float(inner)
        case "tuple":
            return tuple(_value(one, array) for one in inner)
        case "set":
            return frozenset(_value(one, array) for one in inner)
        case "table":
            return {_value(key, array): _value(value, array) for key, value in inner}
        case "array":
            return array(inner)
        case "scalar":
            return array(inner)[()]
        case "params":
            entries, name = inner
            return Params(Layout.of(entries), array(name))
        case "measured":
            return Measured(*(_value(one, array) for one in inner))
    raise ValueError(f"{kind!r} is unknown")
