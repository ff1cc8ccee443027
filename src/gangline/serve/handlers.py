"""What a model is to the server: something that loads files and answers arrays with arrays."""

import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from gangline.serve.errors import LoadError
from gangline.serve.tensors import Array, TensorSpec, as_tensor

Arrays = Mapping[str, Array]
HANDLER_FILE = "handler.py"
OWN = "python"
"""The platform of a model that its own handler serves."""


@runtime_checkable
class Handler(Protocol):
    """What serves a model.

    ``load`` is called once with the directory of the model's files. ``predict`` gets the inputs by name and returns the
    outputs by name, or one array. It is called from one thread at a time unless ``threads`` says otherwise; with
    ``batched`` true, several requests may arrive as one, joined along the first axis. Optional: ``preprocess``, which
    gets what was sent and returns what ``predict`` gets; ``inputs`` and ``outputs``, sequences of TensorSpec, which are
    checked before the model is asked and shown in its metadata.
    """

    def load(self, folder: Path) -> None:
        """Load the model."""

    def predict(self, inputs: Arrays) -> Arrays | Array:
        """Answer."""


class LoadedModel:
    """A handler with its model loaded, and what it says of itself."""

    def __init__(self, handler: Handler, platform: str) -> None:
        self._handler = handler
        self.platform = platform
        self.inputs: Sequence[TensorSpec] = tuple(getattr(handler, "inputs", ()))
        self.outputs: Sequence[TensorSpec] = tuple(getattr(handler, "outputs", ()))
        self.batched = bool(getattr(handler, "batched", False))
        self.quick = platform != OWN
        """Whether it may be asked on the spot; code of a user may hang, and all other requests with it."""
        self.threads = max(1, int(getattr(handler, "threads", 1)))
        self._preprocess = getattr(handler, "preprocess", None)

    def answer(self, inputs: Arrays) -> dict[str, Array]:
        """Ask the model; whatever its code raises comes out of here."""
        if self._preprocess is not None:
            inputs = self._preprocess(inputs)
        found = self._handler.predict(inputs)
        if type(found) is not dict and not isinstance(found, Mapping):
            found = {self.outputs[0].name if self.outputs else "output": found}
        return {name if type(name) is str else str(name): _tensor(name, value) for name, value in found.items()}


def _tensor(name: object, value: object) -> Array:
    try:
        return as_tensor(value)
    except TypeError as error:
        raise TypeError(f"output {name!r}: {error}") from error


def load_model(folder: Path) -> LoadedModel:
    """Load a model from its directory: by its own handler.py, else by the form of its files."""
    from gangline.serve.formats import detect

    own = folder / HANDLER_FILE
    handler, platform = (_own_handler(own), OWN) if own.exists() else detect(folder)
    try:
        handler.load(folder)
    except ImportError as error:
        raise LoadError(f"{platform} is not installed: {error}") from error
    except BaseException as error:  # whatever a model's files or code do, sys.exit among it
        raise LoadError(f"cannot load {platform} model: {type(error).__name__}: {error}") from error
    return LoadedModel(handler, platform)


def _own_handler(file: Path) -> Handler:
    name = f"gangline_handler_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # whatever the user's module does, sys.exit among it
        raise LoadError(f"{HANDLER_FILE} cannot be imported: {type(error).__name__}: {error}") from error
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == name and isinstance(value, type) and _is_handler(value)
    ]
    if len(found) != 1:
        raise LoadError(f"{HANDLER_FILE} must define one class with load and predict; it has {len(found)}")
    handler = found[0]()
    assert isinstance(handler, Handler)
    return handler


def _is_handler(value: type) -> bool:
    return callable(getattr(value, "load", None)) and callable(getattr(value, "predict", None))
