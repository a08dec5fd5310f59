"""A network that stays in memory: its tensors are views of one flat vector.

Setting the weights is then one copy and reading the update is one subtraction, whatever the model.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mmfl.errors import EngineError
from mmfl.params import Flat, Layout, Params

__all__ = ["Resident"]


class Resident:
    """A network with flat weights.

    All parameters and all persistent floating-point buffers are weights: they are aggregated. Other
    buffers (counters) go back to their first value whenever weights are set, so that a turn does
    not depend on the turns before it in the same process. `first` is a copy of the weights as the
    network was built.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        persistent = set(module.state_dict(keep_vars=True))
        buffers = {n: b for n, b in module.named_buffers() if n in persistent}
        weights: dict[str, Tensor] = dict(module.named_parameters())
        weights |= {n: b for n, b in buffers.items() if b.is_floating_point()}
        for name, tensor in weights.items():
            if tensor.dtype != torch.float32:
                raise EngineError(f"weights must be float32, but {name!r} is {tensor.dtype}")
        self.layout = Layout(tuple((n, tuple(t.shape)) for n, t in weights.items()))
        self.flat = torch.empty(self.layout.size, dtype=torch.float32)
        for name, tensor in weights.items():
            offset, shape = self.layout.places[name]
            view = self.flat[offset : offset + tensor.numel()].view(shape)
            view.copy_(tensor.detach())
            tensor.data = view
        self._counters = [(b, b.clone()) for b in module.buffers() if not b.is_floating_point()]

        self.first: Flat = self.flat.numpy().copy()

    def set(self, weights: Flat) -> None:
        """Put weights in, and everything else back to its beginning."""
        np.copyto(self.flat.numpy(), weights)
        for buffer, first in self._counters:
            buffer.copy_(first)

    def change(self, since: Flat) -> Params:
        """How the weights differ from what they were."""
        return Params(self.layout, self.flat.numpy() - since)
