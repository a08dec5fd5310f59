"""The digest of an object in memory: equal in every process that has equal code and data.

A pickle does not serve as it is: sets are in an order that changes from process to process, tensors
and functions say where they are, and cloudpickle gives classes random numbers. So objects are
pickled in Python here, where each of these can be written by its content.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import re
import sys
from collections import ChainMap
from types import CodeType
from typing import Any

__all__ = ["MARKS", "compute_digest"]

MARKS: dict[type, Any] = {
    type(dataclasses.MISSING): lambda _: "MISSING",
    type(dataclasses.fields(dataclasses.make_dataclass("_", ["x"]))[0]._field_type): (  # type: ignore[attr-defined]
        lambda mark: mark.name
    ),
}
"""Objects of `dataclasses` that are known by their identity: a copy of them means nothing."""

_TRACKER = re.compile(rb"\x8c\x20[0-9a-f]{32}")
"""The random number by which cloudpickle recognises a class."""

_WHERE = ("__file__", "__package__", "__path__")
"""Variables of a module that say where it is."""


def compute_digest(thing: Any) -> str:
    """SHA-256 of an object's code and data; not of the file and the lines that it is in."""
    import cloudpickle

    theirs = cloudpickle.Pickler

    class Hasher(pickle._Pickler):
        _dynamic_function_reduce = theirs._dynamic_function_reduce
        _function_reduce = theirs._function_reduce

        def _function_getnewargs(self, function: Any) -> Any:
            code, names, *rest = theirs._function_getnewargs(self, function)
            return code, {k: v for k, v in names.items() if k not in _WHERE}, *rest

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, set | frozenset):
                return type(value), (sorted(value, key=compute_digest),)
            if _is_tensor(value):
                return _reduce_tensor(value)
            return theirs.reducer_override(self, value)

    file = io.BytesIO()
    hasher = Hasher(file, protocol=cloudpickle.DEFAULT_PROTOCOL)
    hasher.dispatch_table = ChainMap({**MARKS, CodeType: _reduce_code}, theirs.dispatch_table)
    hasher.globals_ref = {}  # type: ignore[attr-defined]
    hasher.dump(thing)
    return hashlib.sha256(_TRACKER.sub(b"", file.getvalue())).hexdigest()


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """What code does, without where it is."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return tuple, ((code.co_code, code.co_consts, *names, *counts),)


def _is_tensor(value: object) -> bool:
    """Whether it is a plain tensor with values; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    lazy = isinstance(value, torch.nn.parameter.UninitializedTensorMixin)
    plain = value.layout == torch.strided and not (lazy or value.is_meta or value.is_quantized)
    return bool(plain)


def _reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """What a tensor holds, without where it lies in memory."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    content = plain.reshape(-1).view(sys.modules["torch"].uint8).numpy()
    about = (type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), tensor.stride())
    return tuple, ((*about, tensor.requires_grad, hashlib.sha256(content).hexdigest()),)
