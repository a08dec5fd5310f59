"""Torch's settings on which bits depend: read, and changed, all at once.

They belong to the whole process, and user code may change any of them. A setting that a version of
torch lacks is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

__all__ = ["USUAL", "change_settings", "read_settings", "set_for_gpu", "use_gpu_settings"]

_SMALLEST = 5e-324
_PRECISIONS = (("generic", "all"), *(("mkldnn", op) for op in ("matmul", "conv", "rnn")))
_IEEE = ["none"] * len(_PRECISIONS)
_HOOKS: list[dict[int, Any]] = [
    hooks
    for module in (torch_module, torch_optimizer)
    for name, hooks in vars(module).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
]


_PRECISION_READERS: list[Callable[[], str]] = [
    partial(torch._C._get_fp32_precision_getter, *at)
    for at in _PRECISIONS
    if hasattr(torch._C, "_get_fp32_precision_getter")
]


class _TorchSetting(NamedTuple):
    """A setting of torch on which bits depend; user code may change it."""

    read: Callable[[], Any]
    change: Callable[[Any], object]
    usual: Any


def _read_deterministic() -> tuple[bool, bool]:
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns


def _change_deterministic(modes: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])


def _read_nesting() -> int:
    """In how many blocks of `torch.autocast` this is; leaving the outermost empties its cache."""
    torch.autocast_increment_nesting()
    depth: int = torch.autocast_decrement_nesting()
    return depth


def _change_nesting(depth: int) -> None:
    while (now := _read_nesting()) != depth:
        torch.autocast_increment_nesting() if now < depth else torch.autocast_decrement_nesting()


def _read_matmul_precision() -> str | None:
    """None if it contradicts the newer switches: torch refuses to say it then."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _change_matmul_precision(precision: str | None) -> None:
    if precision is not None:
        torch.set_float32_matmul_precision(precision)


def _read_precisions() -> list[str]:
    """Of all operations and of each; what is not set inherits, and "none" is "ieee"."""
    found = [read() for read in _PRECISION_READERS]
    return found if found == _IEEE else ["none" if name == "ieee" else name for name in found]


def _change_precisions(precisions: list[str]) -> None:
    core: Any = torch._C
    for at, precision in zip(_PRECISIONS, precisions, strict=True):  # heirs come last
        now = core._get_fp32_precision_getter(*at)
        if now != precision and (now, precision) != ("ieee", "none"):
            core._set_fp32_precision_setter(*at, precision)


def _read_hooks() -> list[dict[int, Any]]:
    """Hooks of all modules and optimizers; an empty list if there are none."""
    return [dict(hooks) for hooks in _HOOKS] if any(_HOOKS) else []


def _change_hooks(wanted: list[dict[int, Any]]) -> None:
    for hooks in _HOOKS:
        hooks.clear()
    for hooks, kept in zip(_HOOKS, wanted, strict=False):
        hooks.update(kept)


def _public_settings() -> Iterator[_TorchSetting]:
    autocast = partial(torch.is_autocast_enabled, "cpu"), partial(torch.set_autocast_enabled, "cpu")
    half = partial(torch.get_autocast_dtype, "cpu"), partial(torch.set_autocast_dtype, "cpu")
    cached = torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
    cuda, mha = torch.backends.cuda, torch.backends.mha
    yield _TorchSetting(torch.get_default_dtype, torch.set_default_dtype, torch.float32)
    yield _TorchSetting(_read_deterministic, _change_deterministic, (False, False))
    yield _TorchSetting(torch.is_grad_enabled, torch.set_grad_enabled, True)
    # It cannot be asked.
    yield _TorchSetting(lambda: _SMALLEST * 1.0 == 0.0, torch.set_flush_denormal, False)
    yield _TorchSetting(*autocast, False)
    yield _TorchSetting(*half, torch.bfloat16)
    yield _TorchSetting(*cached, True)
    yield _TorchSetting(_read_nesting, _change_nesting, 0)
    yield _TorchSetting(torch.is_anomaly_enabled, torch.set_anomaly_enabled, False)
    yield _TorchSetting(_read_hooks, _change_hooks, [])
    yield _TorchSetting(mha.get_fastpath_enabled, mha.set_fastpath_enabled, True)
    # Attention on the CPU asks these, too.
    yield _TorchSetting(cuda.flash_sdp_enabled, cuda.enable_flash_sdp, True)
    yield _TorchSetting(cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp, True)
    yield _TorchSetting(cuda.math_sdp_enabled, cuda.enable_math_sdp, True)


def _core_settings() -> Iterator[_TorchSetting]:
    """Settings of torch's core: no public functions read and write them in all versions."""
    core: Any = torch._C
    with suppress(AttributeError):
        yield _TorchSetting(core._get_mkldnn_enabled, core._set_mkldnn_enabled, True)
    with suppress(AttributeError):
        yield _TorchSetting(core._get_mkldnn_deterministic, core._set_mkldnn_deterministic, False)
    if _PRECISION_READERS:
        yield _TorchSetting(_read_precisions, _change_precisions, _IEEE)
    # After the newer switches, which it must not contradict.
    yield _TorchSetting(_read_matmul_precision, _change_matmul_precision, "highest")


_SETTINGS = (*_public_settings(), *_core_settings())
_READERS = [setting.read for setting in _SETTINGS]
USUAL = [setting.usual for setting in _SETTINGS]
"""All settings, as they are if nobody has changed any."""


def read_settings() -> list[Any]:
    """All settings, as they are now."""
    return [read() for read in _READERS]


def change_settings(now: list[Any], wanted: list[Any]) -> None:
    """Change the settings that are not as wanted."""
    for setting, old, new in zip(_SETTINGS, now, wanted, strict=True):
        if old != new:
            setting.change(new)


def _gpu_settings() -> Iterator[_TorchSetting]:
    """What gives a GPU the same bits every time: deterministic algorithms, chosen without a timing.

    TF32 would round the operands of products to 10 bits.
    """
    core: Any = torch._C
    cudnn: Any = torch.backends.cudnn
    yield _TorchSetting(_read_deterministic, _change_deterministic, (True, False))
    for name in ("benchmark", "deterministic"):
        yield _TorchSetting(
            getattr(core, f"_get_cudnn_{name}"),
            getattr(core, f"_set_cudnn_{name}"),
            name == "deterministic",
        )
    if not _PRECISION_READERS:
        matmul: Any = torch.backends.cuda.matmul
        yield _TorchSetting(*_accessors(matmul, "allow_tf32"), False)
        yield _TorchSetting(*_accessors(cudnn, "allow_tf32"), False)
        return
    for operation in ("matmul", "conv", "rnn"):
        read = partial(core._get_fp32_precision_getter, "cuda", operation)
        change = partial(core._set_fp32_precision_setter, "cuda", operation)
        yield _TorchSetting(read, change, "ieee")


def _accessors(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return partial(getattr, owner, name), partial(setattr, owner, name)


_GPU_SETTINGS = (*_gpu_settings(),)


@contextmanager
def use_gpu_settings() -> Iterator[None]:
    """Within this block a GPU gives the same bits every time."""
    before = [setting.read() for setting in _GPU_SETTINGS]
    try:
        set_for_gpu()
        yield
    finally:
        for setting, value in zip(_GPU_SETTINGS, before, strict=True):
            setting.change(value)


def set_for_gpu() -> None:
    """From now on a GPU gives the same bits every time."""
    for setting in _GPU_SETTINGS:
        setting.change(setting.usual)
