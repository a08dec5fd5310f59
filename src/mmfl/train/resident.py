"""A network that stays in memory: its tensors are views of one flat vector.

Setting the weights is then one copy and reading them is none, whatever the model.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mmfl.errors import EngineError
from mmfl.exchange import Flat, Layout

__all__ = ["Resident"]


class Resident:
    """A network with flat weights.

    All parameters and all persistent floating-point buffers are weights: they are aggregated. Other
    buffers (counters, caches) go back to their first value whenever weights are set, so that a turn
    does not depend on the turns before it in the same process. A model may also replace one of its
    tensors by a new one (``self.mean = 0.9 * self.mean + ...``): it is taken back into the
    flat vector. `first` is a copy of the weights as the network was built.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        persistent = set(module.state_dict(keep_vars=True))
        buffers = dict(module.named_buffers())
        weights: dict[str, Tensor] = dict(module.named_parameters())
        weights |= {n: b for n, b in buffers.items() if n in persistent and b.is_floating_point()}
        for name, tensor in weights.items():
            if tensor.dtype != torch.float32:
                raise EngineError(f"weights must be float32, but {name!r} is {tensor.dtype}")
        self.layout = Layout(tuple((n, tuple(t.shape)) for n, t in weights.items()))
        self.flat = torch.empty(self.layout.size, dtype=torch.float32)
        self._numbers: Flat = self.flat.numpy()
        self._views: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            offset, shape = self.layout.places[name]
            view = self.flat[offset : offset + tensor.numel()].view(shape)
            view.copy_(tensor.detach())
            tensor.data = self._views[name] = view
        self._places = {name: self._place(name) for name in (*weights, *buffers)}
        self._rest = {n: b.detach().clone() for n, b in buffers.items() if n not in weights}
        # Layers of torch's own without buffers never put a tensor in the place of another.
        layers = (type(layer).__module__ for layer in module.modules())
        self._steady = not buffers and all(name.startswith("torch.nn.modules") for name in layers)
        self.first: Flat = self.flat.numpy().copy()

    def set(self, weights: Flat) -> None:
        """Put weights in, and everything else back to its beginning."""
        np.copyto(self._numbers, weights)
        if self._steady:
            return
        for name, view in self._views.items():
            tensor = self._current(name)
            if tensor.data_ptr() != view.data_ptr():
                tensor.data = view
        for name, first in self._rest.items():
            owner, key = self._places[name]
            owner._buffers[key] = first.clone()

    def change(self, weights: Flat, out: Flat | None = None) -> Flat:
        """What has been added to `weights`, in `out` or in place: the next `set` overwrites it."""
        for name, view in () if self._steady else self._views.items():
            tensor = self._current(name)
            if tensor.data_ptr() != view.data_ptr():
                view.copy_(tensor.detach())
        return np.subtract(self._numbers, weights, out=self._numbers if out is None else out)

    def _place(self, name: str) -> tuple[nn.Module, str]:
        path, _, key = name.rpartition(".")
        return self.module.get_submodule(path), key

    def _current(self, name: str) -> Tensor:
        owner, key = self._places[name]
        tensor: Tensor = getattr(owner, key)
        return tensor
