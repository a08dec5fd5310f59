"""A network that stays in memory: its tensors are views of one flat vector.

Setting the weights is then one copy and reading them is none, whatever the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import torch
from torch import Tensor, nn

from mmfl.errors import EngineError
from mmfl.exchange import Flat, Layout
from mmfl.train.device import CPU, Device
from mmfl.train.layers import has_known_layers
from mmfl.train.module_state import ModuleState

__all__ = ["Resident"]


class Resident:
    """A network with flat weights.

    All parameters and all persistent floating-point buffers are weights: they are aggregated.
    Whatever else a network keeps (counters, caches) goes back to its beginning whenever weights are
    set, so that a turn does not depend on the turns before it in the same process. A network may
    also replace one of its tensors by a new one (``self.mean = 0.9 * self.mean + ...``): it is
    taken back into the flat vector. `first` is a copy of the weights as the network was built.
    """

    def __init__(self, module: nn.Module, device: Device = CPU) -> None:
        self.module = module
        weights = find_weights(module)
        device.move(module)
        self.layout = Layout(tuple((n, tuple(t.shape)) for n, t in weights.items()))
        # Numbers come and go through the processor's memory: on the processor, that of `flat`.
        self._host = torch.empty(self.layout.size, dtype=torch.float32)
        self._numbers: Flat = self._host.numpy()
        self.flat = self._host if device.home else device.put(self._host)
        self._home = device.home
        self._weights = weights
        self._views: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            offset, shape = self.layout.places[name]
            view = self.flat[offset : offset + tensor.numel()].view(shape)
            view.copy_(tensor.detach())
            tensor.data = self._views[name] = view
        self._places = {name: self._place(name) for name in weights}
        # Layers whose code is known, without buffers, change nothing but their parameters.
        self._steady = not any(True for _ in module.buffers()) and has_known_layers(module)
        if not self._steady:
            self._state = ModuleState(module, weights.values())
            self._tables = [
                table
                for layer in module.modules()
                for table in (layer._parameters, layer._buffers, layer._modules)
            ]
            self._entries = sum(map(len, self._tables))
        self._fetch()
        self.first: Flat = self._numbers.copy()

    def set(self, weights: Flat) -> None:
        """Put weights in, and everything else back to its beginning."""
        np.copyto(self._numbers, weights)
        if not self._home:
            self.flat.copy_(self._host)
        if self._steady:
            return
        self._state.restore()
        for name, view in self._views.items():
            tensor = self._weights[name]
            if tensor.data_ptr() != view.data_ptr():
                tensor.data = view

    def change(self, weights: Flat, out: Flat | None = None) -> Flat:
        """What has been added to `weights`, in `out` or in place: the next `set` overwrites it."""
        if not self._steady:
            self.check()
            for name, view in self._views.items():
                tensor = self._current(name)
                if tensor.data_ptr() != view.data_ptr():
                    view.copy_(tensor.detach())
        self._fetch()
        return np.subtract(self._numbers, weights, out=self._numbers if out is None else out)

    def _fetch(self) -> None:
        if not self._home:
            self._host.copy_(self.flat)

    def check(self) -> None:
        """Refuse weights that `forward` has made, or whose shape it has changed."""
        if self._steady:
            return
        if sum(map(len, self._tables)) != self._entries:
            for name in find_weights(self.module):
                if name not in self._weights:
                    raise EngineError(
                        f"the network makes its weights {name!r} while it runs; make them in "
                        "__init__, and register what is only a cache with persistent=False"
                    )
        for name, view in self._views.items():
            shape = self._current(name).shape
            if shape != view.shape:
                raise EngineError(
                    f"the network changes the shape of its weights {name!r} from "
                    f"{tuple(view.shape)} to {tuple(shape)}; register what is only a cache with "
                    "persistent=False"
                )

    def find_others(self) -> dict[str, str | None]:
        """Names in the network's state that are not in the layout.

        Second names of tied weights lead to their first, all others, such as counters, to None.
        """
        firsts = {id(tensor): name for name, tensor in self._weights.items()}
        state = self.module.state_dict(keep_vars=True)
        return {n: firsts.get(id(t)) for n, t in state.items() if n not in self._weights}

    def _place(self, name: str) -> tuple[nn.Module, str]:
        *path, key = name.split(".")
        return reduce(getattr, path, self.module), key

    def _current(self, name: str) -> Tensor:
        owner, key = self._places[name]
        tensor: Tensor = getattr(owner, key)
        return tensor


def find_weights(module: nn.Module) -> dict[str, Tensor]:
    """A network's parameters and persistent floating-point buffers; those that are tied once."""
    persistent = set(module.state_dict(keep_vars=True))
    weights: dict[str, Tensor] = dict(module.named_parameters())
    weights |= {
        name: buffer
        for name, buffer in module.named_buffers()
        if name in persistent and buffer.is_floating_point()
    }
    for name, tensor in weights.items():
        rule = _find_rule(name, tensor)
        if rule is not None:
            raise EngineError(rule)
    _refuse_shared_memory(weights)
    if not any(tensor.requires_grad for tensor in weights.values()):
        frozen = ", because requires_grad is False for all its weights" if weights else ""
        raise EngineError(f"there is nothing to train in the network{frozen}")
    return weights


def _refuse_shared_memory(weights: Mapping[str, Tensor]) -> None:
    """Refuse two weights at one place: they would be separated."""
    names: dict[int, str] = {}
    for name, tensor in weights.items():
        other = names.setdefault(tensor.data_ptr(), name) if tensor.numel() else name
        if other != name:
            raise EngineError(
                f"weights {other!r} and {name!r} share memory, but are two tensors; to tie them, "
                "assign the parameter itself, as in self.b.weight = self.a.weight"
            )


def _find_rule(name: str, tensor: Tensor) -> str | None:
    """The rule that a weight breaks; None if it breaks none."""
    if tensor.is_meta:
        return f"weights must have values, but {name!r} is on the device 'meta'"
    if tensor.dtype == torch.float32:
        return None
    remedy = "call .float() on the network"
    if tensor.dtype in (torch.float16, torch.bfloat16):
        remedy += ' (precision = "bf16" computes in bfloat16)'
    if tensor.is_complex():
        remedy = "keep real and imaginary parts, and use torch.view_as_complex in forward"
    if not tensor.is_floating_point() and not tensor.is_complex():
        remedy = "register it as a buffer"
    return f"weights must be float32, but {name!r} is {tensor.dtype}; {remedy}"
