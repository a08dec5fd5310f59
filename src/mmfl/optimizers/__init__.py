"""Local optimizers, described without torch; `OPTIMIZERS` is the family's table."""

from mmfl.config import Family
from mmfl.optimizers.base import Optimizer, check_optimizer
from mmfl.optimizers.own_optimizer import OwnOptimizer, is_optimizer_class
from mmfl.optimizers.sgd import Sgd
from mmfl.optimizers.torch_optimizers import (
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
)

__all__ = [
    "OPTIMIZERS",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "OwnOptimizer",
    "RAdam",
    "RMSprop",
    "Sgd",
    "check_optimizer",
]

OPTIMIZERS = Family(
    name="optimizer",
    table={
        "adadelta": Adadelta,
        "adagrad": Adagrad,
        "adam": Adam,
        "adamax": Adamax,
        "adamw": AdamW,
        "nadam": NAdam,
        "radam": RAdam,
        "rmsprop": RMSprop,
        "sgd": Sgd,
    },
    refused={
        "lbfgs": "it evaluates the loss several times in a step, which local training does not do",
        "sparse_adam": 'it takes only sparse gradients, and mmfl makes gradients dense; use "adam"',
    },
    needs=("build",),
    function=OwnOptimizer,
    accepts=is_optimizer_class,
    own="your own is a class like those of torch.optim, or a function build(parameters, lr) "
    "(docs/how-to/choose-an-optimizer.md)",
)
