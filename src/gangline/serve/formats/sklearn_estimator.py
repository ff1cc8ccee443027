"""Estimators of scikit-learn, saved by joblib or pickle. Loading one runs what its author put into it."""

from pathlib import Path
from typing import Any

import numpy as np

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import TensorSpec, datatype_of


class SklearnEstimator:
    """An estimator with ``predict``, and ``predict_proba`` as a second output where it has one."""

    batched = True

    def __init__(self, file: Path) -> None:
        self._file = file
        self._estimator: Any = None
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()

    def load(self, folder: Path) -> None:
        """Load the model."""
        import joblib

        self._estimator = joblib.load(self._file)
        self.outputs = self._described_outputs()

    def _described_outputs(self) -> tuple[TensorSpec, ...]:
        classes = getattr(self._estimator, "classes_", None)
        if classes is None or isinstance(classes, list):
            return (TensorSpec(name="predict", datatype="FP64", shape=(-1,)),)
        label = TensorSpec(name="predict", datatype=datatype_of(np.asarray(classes)), shape=(-1,))
        if not hasattr(self._estimator, "predict_proba"):
            return (label,)
        return label, TensorSpec(name="predict_proba", datatype="FP64", shape=(-1, len(classes)))

    def predict(self, inputs: Arrays) -> Arrays:
        """Answer for the rows of the one input, or of several put side by side as columns."""
        arrays = [array if array.ndim > 1 else array[:, None] for array in inputs.values()]
        rows = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)
        return {spec.name: getattr(self._estimator, spec.name)(rows) for spec in self.outputs}


def make(file: Path) -> Handler:
    """Return what serves this file."""
    return SklearnEstimator(file)
