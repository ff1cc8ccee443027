"""Models that need no code of their own: the form of their files says how they are loaded."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from gangline.serve.errors import LoadError
from gangline.serve.handlers import Handler

_FORMS: Sequence[tuple[str, str, str]] = (
    ("saved_model.pb", "tensorflow_saved_model", "tensorflow"),
    ("*.onnx", "onnx_session", "onnx"),
    ("*.pt2", "torch_modules", "torch-export"),
    ("*.pt", "torch_modules", "torchscript"),
    ("*.pth", "torch_modules", "torchscript"),
    ("*.ubj", "xgboost_booster", "xgboost"),
    ("*.xgb", "xgboost_booster", "xgboost"),
    ("*.bst", "xgboost_booster", "xgboost"),
    ("*.joblib", "sklearn_estimator", "sklearn"),
    ("*.pkl", "sklearn_estimator", "sklearn"),
    ("*.npz", "numpy_layers", "numpy"),
)
"""Pattern of a file, module here, what the model's metadata calls it."""


def detect(folder: Path) -> tuple[Handler, str]:
    """Choose how a model is loaded by the first pattern that one file matches."""
    for pattern, module, platform in _FORMS:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise LoadError(f"several files could be the model: {names}; keep one, or add a handler.py")
        if found:
            make: Callable[[Path], Handler] = import_module(f"gangline.serve.formats.{module}").make
            return make(found[0]), platform
    raise LoadError(
        f"no model file in {folder.name}: expected handler.py or one of {', '.join(form[0] for form in _FORMS)}"
    )
