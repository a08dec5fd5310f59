"""The loop's state as JSON and safetensors, and back, exact to the bit.

Every value comes back equal and with the same type, or is refused when it is written. JSON has
None, booleans, whole numbers, text, lists, and finite floats (which Python writes so that they are
read back exactly). Everything else is an object with one key that names it:

    {"float": "nan"}                     also "inf", "-inf"
    {"int": "0x..."}                     a whole number with too many digits for JSON
    {"tuple": [...]}
    {"set": [...]}                       a frozenset; its members in the order of their JSON
    {"mutable set": [...]}               a set
    {"table": [[key, value], ...]}       a dictionary, in its own order
    {"array": name}                      in the file `arrays`, by name
    {"number": [dtype, hex digits]}      a NumPy scalar ({"scalar": name} in older checkpoints)
    {"numpy text": "..."}                a `numpy.str_`
    {"params": [layout, name]}           weights, as one flat array
    {"measured": [...]}                  a `Measured`
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds
from safetensors.numpy import load, save

from mmfl.errors import StoreError, describe_type
from mmfl.exchange import Layout, Params
from mmfl.experiment import ModelDescription
from mmfl.loop import ClientTable, Segment, State
from mmfl.objectives import Measured

__all__ = ["Parts", "check_state", "decode_state", "encode_state", "model_file"]

Array = npt.NDArray[Any]
Parts = dict[str, tuple[object, Callable[[], bytes]]]
"""From a file's name to what it is made of, and how: who holds the same object has the file."""

_APART = ("params", "clients")
_RULES = ("allocator", "aggregator")
_KINDS = [
    np.dtype(kind)
    for kind in ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d"]
]
_SIMPLE = {type(None), bool, int, float, str, np.str_, *(np.dtype(k.str).type for k in _KINDS)}
_DEPTH = 100  # levels of lists in lists: few enough to be read back at any place in a program
_BITS = 1024  # of a whole number: Python writes and reads such a number at any setting
_PLAIN = (
    *((Mapping, "dict"), (tuple, "tuple"), (Set, "set"), (int, "int"), (float, "float")),
    *((str, "str"), (Sequence, "list")),
)
"""What to use instead of types that are like these."""

_ONE: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": lambda digits: int(digits, 16),
    "number": lambda pair: np.frombuffer(bytes.fromhex(pair[1]), pair[0])[0],
    "numpy text": np.str_,
}
_MANY: dict[str, Callable[[Iterable[Any]], Any]] = {
    "tuple": tuple,
    "set": frozenset,
    "mutable set": set,
    "table": dict,
    "measured": lambda fields: Measured(*fields),
}


def encode_state(state: State) -> tuple[dict[str, Any], Parts]:
    """A state as a JSON document and the files that belong to it."""
    arrays: dict[str, Array] = {}
    fields = [field.name for field in dataclasses.fields(state) if field.name not in _APART]
    document = {
        "fields": {name: _plain(getattr(state, name), arrays, name) for name in fields},
        "layouts": {task: weights.layout.entries for task, weights in state.params.items()},
        "clients": list(state.clients.tasks),
    }
    _refuse_shared({name: getattr(state, name) for name in _RULES})
    parts: Parts = {}
    for task, weights in state.params.items():
        parts[f"model-{task}"] = (weights, partial(model_file, task, weights))
    parts["clients"] = (state.clients, lambda: save(state.clients.whole._asdict()))
    if arrays:
        parts["arrays"] = (state, lambda: save(arrays))
    return document, parts


def decode_state(document: Mapping[str, Any], read: Callable[[str], bytes]) -> State:
    """The state; malformed input may raise any exception.

    Args:
        document: As `encode_state` gave it.
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
    whole = Segment._make(clients[name] for name in Segment._fields)
    fields = {name: _value(item, array) for name, item in document["fields"].items()}
    table = ClientTable(tuple(document["clients"]), (whole,) if len(whole.ids) else ())
    return State(params=params, clients=table, **fields)


def check_state(value: Any, where: str) -> None:
    """Refuse a rule's state that a checkpoint cannot hold.

    Args:
        value: The state.
        where: Whose it is: the name of a field of `State`.
    """
    _plain(value, {}, where)
    _refuse_shared({where: value})


def model_file(task: str, weights: Params, description: ModelDescription | None = None) -> bytes:
    """A task's weights as a safetensors file, by tensor name.

    Args:
        task: The task's name.
        weights: Its weights.
        description: How the model is built and used. It goes into the file's header.
    """
    about = {"task": task} if description is None else {"mmfl": description.to_json()}
    return save(dict(weights.items()), metadata=about)  # one key: safetensors gives them any order


def _plain(value: Any, arrays: dict[str, Array], where: str, depth: int = 0) -> Any:
    """A value as JSON can hold it; arrays go by name."""
    if depth > _DEPTH:
        raise StoreError(
            f"a checkpoint cannot hold the state of {where!r}: it is nested more than {_DEPTH} "
            "levels deep, or contains itself"
        )

    def each(values: Iterable[Any]) -> list[Any]:
        return [_plain(item, arrays, where, depth + 1) for item in values]

    kind = type(value)  # what only inherits from a known type would come back as that type
    if kind in _SIMPLE:
        return _simple(value)
    if kind is Params:
        entries = [[name, list(shape)] for name, shape in value.layout.entries]
        return {"params": [entries, _add_array(value.flat, arrays)]}
    if kind is np.ndarray and value.dtype in _KINDS:
        return {"array": _add_array(value, arrays)}
    if kind is Measured:
        return {"measured": each(dataclasses.astuple(value))}
    if kind is list:
        return each(value)
    if kind is tuple:
        return {"tuple": each(value)}
    if kind in (frozenset, set):
        name = "set" if kind is frozenset else "mutable set"
        return {name: sorted(each(value), key=json.dumps)}
    if kind is dict:
        return {"table": [each(pair) for pair in value.items()]}
    plain = next((one for base, one in _PLAIN if isinstance(value, base)), "")
    rule = "use None, numbers, text, lists, tuples, sets, dictionaries, NumPy arrays of numbers"
    if plain:
        rule = f"use a plain {plain} (not {kind.__name__})"
    raise StoreError(
        f"a checkpoint cannot hold the state of {where!r}: it contains {describe_type(value)}; "
        f"{rule}"
    )


def _refuse_shared(states: Mapping[str, Any]) -> None:
    """Refuse what can be changed and occurs twice in a rule's state: it would come back as two."""
    for where, state in states.items():
        seen: dict[int, Any] = {}
        for one in _walk(state):
            if id(one) in seen:
                raise _twice(where, one)
            seen[id(one)] = one
        arrays = [one for one in seen.values() if type(one) is np.ndarray and one.size]
        if len(arrays) > 1 and _overlap(arrays):
            raise _twice(where, arrays[0])


def _twice(where: str, one: Any) -> StoreError:
    kind = "array (or a part of it)" if type(one) is np.ndarray else type(one).__name__
    return StoreError(
        f"a checkpoint cannot hold the state of {where!r}: the same {kind} occurs twice in it; "
        "copy it"
    )


def _walk(value: Any) -> Iterator[Any]:
    """All lists, dictionaries, sets and writable arrays in a state, which contains no cycle."""
    if type(value) is Params:
        value = value.flat
    fixed = type(value) is np.ndarray and not value.flags.writeable
    if type(value) in (list, dict, set, np.ndarray) and not fixed:
        yield value
    if type(value) in (list, tuple):
        for item in value:
            yield from _walk(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _walk(item)


def _overlap(arrays: list[Array]) -> bool:
    """Whether two arrays share memory."""
    bounds = sorted(((*byte_bounds(one), i) for i, one in enumerate(arrays)))
    near: list[tuple[int, int, int]] = []
    for place in bounds:
        near = [one for one in near if one[1] > place[0]]
        if any(_shares(arrays[one[2]], arrays[place[2]]) for one in near):
            return True
        near.append(place)
    return False


def _shares(one: Array, other: Array) -> bool:
    try:
        limit: Any = 10_000
        return np.shares_memory(one, other, max_work=limit)
    except np.exceptions.TooHardError:
        return True


def _simple(value: Any) -> Any:
    """A single number or text as JSON can hold it."""
    if isinstance(value, np.str_):
        return {"numpy text": str(value)}
    if isinstance(value, np.generic):
        return {"number": [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, int) and value.bit_length() > _BITS:
        return {"int": hex(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _add_array(array: Array, arrays: dict[str, Array]) -> str:
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
    if kind in _ONE:
        return _ONE[kind](inner)
    if kind in _MANY:
        return _MANY[kind](_value(one, array) for one in inner)
    if kind == "array":
        return array(inner)
    if kind == "scalar":
        return array(inner)[()]
    if kind == "params":
        entries, name = inner
        return Params(Layout.of(entries), array(name))
    raise ValueError(f"{kind!r} is unknown")
