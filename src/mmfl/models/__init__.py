"""Networks, described without torch; `MODELS` is the family's table."""

from mmfl.config import Family
from mmfl.models.base import Model
from mmfl.models.cnn import Cnn
from mmfl.models.mlp import Mlp

__all__ = ["MODELS", "Cnn", "Mlp", "Model"]

MODELS = Family(name="model", table={"cnn": Cnn, "mlp": Mlp}, needs=("build",), default="mlp")
