"""How torch computes in this process: what the bits of a result depend on, besides the experiment.

The same network on the same data gives other bits with another version of torch, on another
processor, and on the same one if torch is told to use other instructions (ATEN_CPU_CAPABILITY).
With a GPU, also its model and the versions of CUDA and cuDNN count.
"""

from __future__ import annotations

import os

import torch

from mmfl.train.device import Device
from mmfl.train.precision import native_bf16

__all__ = ["numerics"]

_SETTINGS = (
    *("DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS"),
    *("ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE"),
)
"""Variables that choose instructions for the libraries that torch calls."""


def numerics(device: Device) -> dict[str, str]:
    """What this process computes with, by name."""
    settings = [f"{name}={os.environ[name]}" for name in _SETTINGS if os.environ.get(name)]
    return {
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": "yes" if torch.backends.mkldnn.is_available() else "no",
        "native_bf16": "yes" if native_bf16() else "no",
        "settings": " ".join(settings),
        **device.describe(),
    }
