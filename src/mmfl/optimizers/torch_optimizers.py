"""The optimizers of ``torch.optim``: their settings, with torch's names and defaults.

The learning rate is always `local.lr`. Only settings that change the rule are here: not those that
choose between implementations of it. Where torch has a fused implementation, it is used: on a
processor it takes half the time, because a step is one call and not ten for each tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, Strict

from mmfl.config import Flag, NonNegative, Positive, component

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer as TorchOptimizer

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop"]

Decay = Annotated[float, Strict(), Field(ge=0, lt=1)]
Betas = tuple[Decay, Decay]


@component
class Adam:
    """Adam (Kingma and Ba, 2015); its bias correction starts anew in every turn.

    Attributes:
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root of the second mean.
        weight_decay: L2 penalty, added to the gradient.
        amsgrad: Whether to divide by the largest second mean so far (Reddi et al., 2018).
    """

    betas: Betas = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    amsgrad: Flag = False

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.Adam``."""
        return _build("Adam", self, parameters, lr, fused=_has_fused(parameters))


@component
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Attributes:
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root of the second mean.
        weight_decay: The share of lr by which a step shrinks the weights.
        amsgrad: Whether to divide by the largest second mean so far.
    """

    betas: Betas = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.01
    amsgrad: Flag = False

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.AdamW``."""
        return _build("AdamW", self, parameters, lr, fused=_has_fused(parameters))


@component
class NAdam:
    """Adam with Nesterov momentum (Dozat, 2016).

    Attributes:
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root of the second mean.
        weight_decay: L2 penalty, added to the gradient.
        momentum_decay: How fast the momentum approaches betas[0].
    """

    betas: Betas = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    momentum_decay: NonNegative = 0.004

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.NAdam``."""
        return _build("NAdam", self, parameters, lr)


@component
class RAdam:
    """Adam whose first steps are rectified (Liu et al., 2020).

    The first five steps of a turn are plain momentum: with short turns there is nothing else.

    Attributes:
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root of the second mean.
        weight_decay: L2 penalty, added to the gradient.
    """

    betas: Betas = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.RAdam``."""
        return _build("RAdam", self, parameters, lr)


@component
class Adamax:
    """Adam with the largest gradient in place of the second mean (Kingma and Ba, 2015).

    Attributes:
        betas: Decay of the running mean of the gradient and of its largest size.
        eps: Added to the largest size.
        weight_decay: L2 penalty, added to the gradient.
    """

    betas: Betas = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.Adamax``."""
        return _build("Adamax", self, parameters, lr)


@component
class Adagrad:
    """Adagrad (Duchi et al., 2011): each weight's rate falls with its own gradients of the turn.

    Attributes:
        lr_decay: The rate of step n of the turn is lr / (1 + (n - 1) lr_decay).
        eps: Added to the root of the sum of squares.
        weight_decay: L2 penalty, added to the gradient.
        initial_accumulator_value: The sum of squares before the first step.
    """

    lr_decay: NonNegative = 0.0
    eps: Positive = 1e-10
    weight_decay: NonNegative = 0.0
    initial_accumulator_value: NonNegative = 0.0

    buffers: ClassVar[int] = 1

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.Adagrad``."""
        return _build("Adagrad", self, parameters, lr, fused=_has_fused(parameters))


@component
class Adadelta:
    """Adadelta (Zeiler, 2012). Its usual learning rate is 1.

    Attributes:
        rho: Decay of the running means of squares.
        eps: Added to the means under the roots.
        weight_decay: L2 penalty, added to the gradient.
    """

    rho: Decay = 0.9
    eps: Positive = 1e-6
    weight_decay: NonNegative = 0.0

    buffers: ClassVar[int] = 2

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.Adadelta``."""
        return _build("Adadelta", self, parameters, lr)


@component
class RMSprop:
    """RMSprop (Hinton, 2012).

    Attributes:
        alpha: Decay of the running mean of the gradient's square.
        eps: Added to the root of that mean.
        weight_decay: L2 penalty, added to the gradient.
        momentum: Momentum of the scaled gradients.
        centered: Whether to divide by the standard deviation, not by the root mean square.
    """

    alpha: Decay = 0.99
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    momentum: Decay = 0.0
    centered: Flag = False

    buffers: ClassVar[int] = 1

    def build(self, parameters: Sequence[Tensor], lr: float) -> TorchOptimizer:
        """``torch.optim.RMSprop``."""
        return _build("RMSprop", self, parameters, lr)


def _build(
    name: str, settings: Any, parameters: Sequence[Tensor], lr: float, **choices: Any
) -> TorchOptimizer:
    """The class of torch with these settings: what mmfl calls a field, torch calls so, too."""
    from torch import optim

    made: TorchOptimizer = getattr(optim, name)(parameters, lr=lr, **vars(settings), **choices)
    return made


def _has_fused(parameters: Sequence[Tensor]) -> bool:
    """Whether torch's fused implementations take these parameters."""
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
