"""Foreign and own formats into the model, and status back out. Pure translations: text or data in, values out.

``read`` takes any file a user has and answers with one ``Translation`` per job. The dialects: ``native`` (our job
file), ``kubeflow`` (TFJob and its kin), ``ffdl`` (manifests), ``arena`` (flags of a command line). ``frameworks``
says what replicas must be told so that each framework finds its peers. The names are imported when first used:
most commands and every start of the service need one dialect, not all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.dialects.recognition import read, read_plain
    from gangline.dialects.translation import CleanPods, Translation

__all__ = ["CleanPods", "Translation", "read", "read_plain"]

_HOMES = {
    "read": "gangline.dialects.recognition",
    "read_plain": "gangline.dialects.recognition",
    "CleanPods": "gangline.dialects.translation",
    "Translation": "gangline.dialects.translation",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gangline.dialects' has no attribute '{name}'")
