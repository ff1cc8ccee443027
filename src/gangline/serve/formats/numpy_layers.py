"""Weights of a multi-layer network saved by NumPy, as the MNIST example writes them."""

from pathlib import Path

import numpy as np

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import Array, TensorSpec


class NumpyLayers:
    """Layers ``weight0``, ``bias0``, ``weight1``, ... with rectifiers between them; the last gives the scores.

    ``mean`` and ``deviation``, where they are in the file, are taken out of the inputs first.
    """

    batched = True
    threads = 4

    def __init__(self, file: Path) -> None:
        self._file = file
        self._layers: list[tuple[Array, Array]] = []
        self._mean: Array = np.float32(0)  # type: ignore[assignment]  # a scalar stands for an array
        self._deviation: Array = np.float32(1)  # type: ignore[assignment]
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()

    def load(self, folder: Path) -> None:
        """Load the model."""
        with np.load(self._file, allow_pickle=False) as found:
            count = sum(name.startswith("weight") for name in found.files)
            self._layers = [(found[f"weight{index}"], found[f"bias{index}"]) for index in range(count)]
            self._mean = found["mean"] if "mean" in found.files else self._mean
            self._deviation = found["deviation"] if "deviation" in found.files else self._deviation
        first, last = self._layers[0][0], self._layers[-1][0]
        self.inputs = (TensorSpec(name="input", datatype="FP32", shape=(-1, first.shape[0])),)
        self.outputs = (TensorSpec(name="scores", datatype="FP32", shape=(-1, last.shape[1])),)

    def predict(self, inputs: Arrays) -> Array:
        """Answer."""
        values: Array = (inputs["input"] - self._mean) / self._deviation
        for weight, bias in self._layers[:-1]:
            values = np.maximum(values @ weight + bias, 0)
        weight, bias = self._layers[-1]
        scores: Array = values @ weight + bias
        return scores.astype(np.float32, copy=False)


def make(file: Path) -> Handler:
    """Return what serves this file."""
    return NumpyLayers(file)
