"""Weights to begin with, from a safetensors file: another run's, or pre-trained elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from safetensors import SafetensorError
from safetensors.torch import load

from mmfl.errors import InputError, did_you_mean
from mmfl.exchange import Flat, Layout, Params
from mmfl.system.files import read_file

__all__ = ["load_warm_start"]


def load_warm_start(
    path: str, layout: Layout, others: Mapping[str, str | None] = MappingProxyType({})
) -> Flat:
    """The file's tensors in the model's order; `InputError` unless they are exactly the model's.

    Args:
        path: Of the file.
        layout: The model's weights.
        others: The other names in the model's state: from the second name of a tied weight to the
            first, and from what is no weight, such as a counter, to None.
    """
    where = f"warm_start {path!r}"
    try:
        tensors = load(read_file(path))  # torch's: NumPy knows no bfloat16
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}") from None
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{where} is not a valid safetensors file: {error}") from None
    wanted = dict(layout.entries)
    for name, first in others.items():
        tensor = tensors.pop(name, None)
        if tensor is not None and first is not None:
            tensors.setdefault(first, tensor)
    for name in wanted:
        if name not in tensors:
            raise InputError(
                f"{where} has no {name!r}, which the model needs; {did_you_mean(name, tensors)}"
            )
    for name, tensor in tensors.items():
        if name not in wanted:
            raise InputError(f"{where} has {name!r}, which the model does not have")
        if tuple(tensor.shape) != wanted[name]:
            raise InputError(
                f"{where}: {name!r} has shape {tuple(tensor.shape)}, but the model's "
                f"is {wanted[name]}"
            )
        if not tensor.float().isfinite().all():
            raise InputError(f"{where}: {name!r} has numbers that are not finite")
    return Params.pack(layout, {name: t.float().numpy() for name, t in tensors.items()}).flat
