"""The composition roots: choose engine, store and clock, and wire the rest.

Nothing below this package knows which engine or store it works with; nothing above it needs to. ``local`` is a whole
Gangline on one machine, ``cluster`` the controller of a Kubernetes cluster, ``context`` what a person's own machine
needs to speak for them to one, and ``installing`` puts Gangline into a cluster. They are imported when first used: a
command that lists the jobs of a cluster needs no local engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.compose.clock import SystemClock
    from gangline.compose.local import Service, serve_forever

__all__ = ["Service", "SystemClock", "serve_forever"]

_HOMES = {
    "Service": "gangline.compose.local",
    "SystemClock": "gangline.compose.clock",
    "serve_forever": "gangline.compose.local",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gangline.compose' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
