"""ONNX models by onnxruntime."""

from pathlib import Path
from typing import Any

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import TensorSpec

_TYPES = {
    "bool": "BOOL",
    "float16": "FP16",
    "float": "FP32",
    "double": "FP64",
    "bfloat16": "BF16",
    "string": "BYTES",
    **{f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class OnnxSession:
    """A session of onnxruntime on the best device that it has."""

    threads = 8  # a session may be run by several threads at once

    def __init__(self, file: Path) -> None:
        self._file = file
        self._session: Any = None
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()
        self.batched = False
        self._names: list[str] = []

    def load(self, folder: Path) -> None:
        """Load the model."""
        import onnxruntime

        self._session = onnxruntime.InferenceSession(self._file, providers=onnxruntime.get_available_providers())
        self.inputs = tuple(map(_spec, self._session.get_inputs()))
        self.outputs = tuple(map(_spec, self._session.get_outputs()))
        self._names = [spec.name for spec in self.outputs]
        self.batched = all(spec.shape[:1] == (-1,) for spec in (*self.inputs, *self.outputs))

    def predict(self, inputs: Arrays) -> Arrays:
        """Answer."""
        return dict(zip(self._names, self._session.run(self._names, dict(inputs)), strict=True))


def _spec(value: Any) -> TensorSpec:
    inner = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(length if isinstance(length, int) else -1 for length in value.shape)
    return TensorSpec(name=value.name, datatype=_TYPES.get(inner, "BYTES"), shape=shape)


def make(file: Path) -> Handler:
    """Return what serves this file."""
    return OnnxSession(file)
