"""Networks, described without torch; `MODELS` is the family's table."""

from mmfl.config import Family
from mmfl.models.base import Model
from mmfl.models.cnn import Cnn
from mmfl.models.cnn1d import Cnn1d
from mmfl.models.gru import Gru
from mmfl.models.logistic import Logistic
from mmfl.models.lstm import Lstm
from mmfl.models.mlp import Mlp
from mmfl.models.own_network import OwnNetwork, is_network
from mmfl.models.preact_resnet import PreactResnet, PreactResnet18
from mmfl.models.published_cnn import PublishedCnn
from mmfl.models.transformer import Transformer

__all__ = [
    "MODELS",
    "Cnn",
    "Cnn1d",
    "Gru",
    "Logistic",
    "Lstm",
    "Mlp",
    "Model",
    "OwnNetwork",
    "PreactResnet",
    "PreactResnet18",
    "PublishedCnn",
    "Transformer",
]

MODELS = Family(
    name="model",
    table={
        "cnn": Cnn,
        "cnn1d": Cnn1d,
        "gru": Gru,
        "logistic": Logistic,
        "lstm": Lstm,
        "mlp": Mlp,
        "preact_resnet": PreactResnet,
        "preact_resnet18": PreactResnet18,
        "published_cnn": PublishedCnn,
        "transformer": Transformer,
    },
    needs=("build",),
    default="mlp",
    function=OwnNetwork,
    accepts=is_network,
    own="a model is an nn.Module, a class of them, or a function build(shape, outputs) "
    "(docs/how-to/write-a-model.md)",
)
