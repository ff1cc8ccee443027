"""Boosters of XGBoost, in its own file formats."""

from pathlib import Path
from typing import Any

import numpy as np

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import Array, TensorSpec


class XgboostBooster:
    """A booster; what it answers depends on its objective."""

    batched = True
    outputs = (TensorSpec(name="predict", datatype="FP32", shape=(-1,)),)

    def __init__(self, file: Path) -> None:
        self._file = file
        self._booster: Any = None

    def load(self, folder: Path) -> None:
        """Load the model."""
        import xgboost

        self._booster = xgboost.Booster()
        self._booster.load_model(self._file)

    def predict(self, inputs: Arrays) -> Array:
        """Answer for the rows of the one input."""
        (rows,) = inputs.values()
        return np.asarray(self._booster.inplace_predict(np.array(rows)))


def make(file: Path) -> Handler:
    """Return what serves this file."""
    return XgboostBooster(file)
