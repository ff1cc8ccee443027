"""Lets Katib's ``report_metrics`` find its way out of a trial on one machine, where no cluster resolves its address.

Python imports this at its start where the engine puts this folder on PYTHONPATH. Katib's package stays as it is: when
it is imported, the address that it pushes to by default is that of the service here, and the namespace, which a pod
reads from a file, is the trial's. A ``sitecustomize`` of somebody else that this one hides is run all the same.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType

_ADDRESS, _NAMESPACE = os.environ.get("GANGLINE_DB_MANAGER"), os.environ.get("GANGLINE_NAMESPACE")
_CONSTANTS, _UTILITIES = "kubeflow.katib.constants.constants", "kubeflow.katib.utils.utils"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class _TellingLoader(Loader):
    """Loads a module of Katib's as it is, and tells it where it runs."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to the loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, then say what a cluster would have said."""
        self._loader.exec_module(module)
        if module.__name__ == _CONSTANTS:
            vars(module)["DEFAULT_DB_MANAGER_ADDRESS"] = _ADDRESS
        elif not _NAMESPACE_FILE.exists():
            vars(module)["get_current_k8s_namespace"] = lambda: _NAMESPACE


class _KatibFinder(MetaPathFinder):
    """Finds the two modules that are told something."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find one of the two; all others are somebody else's to find."""
        if fullname not in (_CONSTANTS, _UTILITIES):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader)
        return spec


if _ADDRESS:
    sys.meta_path.insert(0, _KatibFinder())

_own = Path(__file__).parent
_others = [folder for folder in sys.path if Path(folder) != _own]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
