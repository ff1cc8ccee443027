"""TorchScript modules and programs of torch.export, on a GPU where there is one."""

from pathlib import Path
from typing import Any

import numpy as np

from gangline.serve.handlers import Arrays, Handler
from gangline.serve.tensors import Array, TensorSpec

_DATATYPES = {
    **{f"torch.{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"torch.float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
    "torch.bfloat16": "BF16",
    "torch.bool": "BOOL",
}


class TorchModule:
    """A module that answers one tensor, several, or some by name.

    An exported program says what it takes. TorchScript only names it, so its tensors go by these names or, where others
    were sent, in the order in which they were sent.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._module: Any = None
        self._device = "cpu"
        self._names: tuple[str, ...] = ()
        self._types: tuple[Any, ...] = ()
        self.inputs: tuple[TensorSpec, ...] = ()
        self.batched = True

    def load(self, folder: Path) -> None:
        """Load the model."""
        import torch

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        if self._file.suffix == ".pt2":
            program = torch.export.load(self._file)
            self._module = program.module().to(self._device)
            self._describe(program)
        else:
            self._module = torch.jit.load(str(self._file), map_location=self._device).eval()
            self._names = tuple(argument.name for argument in self._module.forward.schema.arguments[1:])

    def _describe(self, program: Any) -> None:
        """Take over what a program says of its inputs; one that takes anything but tensors says too little."""
        placeholders = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
        names = [str(name) for name in program.graph_signature.user_inputs]
        found: list[Any] = [placeholders.get(name) for name in names]
        if not all(str(getattr(each, "dtype", "")) in _DATATYPES for each in found):
            return
        self._names, self._types = tuple(names), tuple(each.dtype for each in found)
        self.inputs = tuple(_spec(name, each) for name, each in zip(names, found, strict=True))
        self.batched = all(spec.shape[:1] == (-1,) for spec in self.inputs)

    def predict(self, inputs: Arrays) -> Arrays:
        """Answer."""
        import torch

        with torch.inference_mode():
            known = len(self._names) == len(inputs) and all(name in inputs for name in self._names)
            arrays = [inputs[name] for name in self._names] if known else list(inputs.values())
            given = [torch.from_numpy(np.array(array)).to(self._device) for array in arrays]
            if self._types:  # a BF16 was widened on its way
                given = [tensor.to(dtype) for tensor, dtype in zip(given, self._types, strict=True)]
            found = self._module(*given)
        if isinstance(found, dict):
            return {name: _array(value) for name, value in found.items()}
        several = found if isinstance(found, tuple | list) else (found,)
        names = ["output"] if len(several) == 1 else [f"output_{index}" for index in range(len(several))]
        return {name: _array(value) for name, value in zip(names, several, strict=True)}


def _spec(name: str, tensor: Any) -> TensorSpec:
    shape = tuple(length if isinstance(length, int) else -1 for length in tensor.shape)
    return TensorSpec(name=name, datatype=_DATATYPES[str(tensor.dtype)], shape=shape)


def _array(value: Any) -> Array:
    value = value.detach().cpu()
    found: Array = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return found


def make(file: Path) -> Handler:
    """Return what serves this file."""
    return TorchModule(file)
