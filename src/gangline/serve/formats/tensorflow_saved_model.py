"""SavedModels of TensorFlow, by their serving signature."""

from pathlib import Path
from typing import Any

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import Array, TensorSpec, datatype_of

_SIGNATURE = "serving_default"


class SavedModel:
    """The function that a SavedModel calls its serving signature."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._function: Any = None
        self._model: Any = None
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()
        self.batched = False

    def load(self, folder: Path) -> None:
        """Load the model."""
        import tensorflow as tf

        self._model = tf.saved_model.load(str(self._folder))
        self._function = self._model.signatures[_SIGNATURE]
        self.inputs = _specs(self._function.structured_input_signature[1])
        self.outputs = _specs(self._function.structured_outputs)
        said = (*self.inputs, *self.outputs)
        self.batched = bool(self.inputs) and all(spec.shape[:1] == (-1,) for spec in said)

    def predict(self, inputs: Arrays) -> Arrays:
        """Answer."""
        import tensorflow as tf

        types = {name: spec.dtype for name, spec in self._function.structured_input_signature[1].items()}
        given = {name: tf.constant(array, dtype=types.get(name)) for name, array in inputs.items()}
        return {name: _array(tensor) for name, tensor in self._function(**given).items()}


def _array(tensor: Any) -> Array:
    import tensorflow as tf

    found: Array = (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()
    return found


def _specs(given: Any) -> tuple[TensorSpec, ...]:
    """What a signature says; nothing if one of its tensors may have any number of dimensions."""
    import numpy as np

    if any(spec.shape.rank is None for spec in given.values()):
        return ()
    return tuple(
        TensorSpec(
            name=name,
            datatype="BF16" if spec.dtype.name == "bfloat16" else datatype_of(np.empty(0, spec.dtype.as_numpy_dtype)),
            shape=tuple(-1 if length is None else int(length) for length in spec.shape),
        )
        for name, spec in given.items()
    )


def make(file: Path) -> Handler:
    """Return what serves the directory of this file."""
    return SavedModel(file.parent)
