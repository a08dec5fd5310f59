"""Which devices this machine has; to find out about any but "cpu", torch is imported."""

from __future__ import annotations

from functools import cache

from mmfl.devices.names import get_device_type
from mmfl.errors import InputError

__all__ = ["find_device", "refuse_missing"]


@cache
def find_device(name: str) -> str:
    """The device that "auto" means here: "cuda", "mps" or "cpu"; any other name as it is."""
    if name != "auto":
        return name
    return next((other for other in ("cuda", "mps") if _find_obstacle(other) is None), "cpu")


def refuse_missing(name: str) -> None:
    """Raise `InputError` if this machine does not have a device."""
    obstacle = None if name == "cpu" else _find_obstacle(name)
    if obstacle:
        raise InputError(f'device = "{name}": {obstacle}; use "cpu", or "auto" for what there is')


@cache
def _find_obstacle(name: str) -> str | None:
    """Why a device cannot be used; None if it can."""
    import torch

    number = name.partition(":")[2]
    if get_device_type(name) == "mps":
        if not torch.backends.mps.is_built():
            return f"torch {torch.__version__} was built without MPS"
        return None if torch.backends.mps.is_available() else "this machine has no GPU of Apple's"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} was built without CUDA"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return "torch finds no GPU here"
    if number and int(number) >= count:
        known = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        return f"torch finds only {known} here"
    return None
