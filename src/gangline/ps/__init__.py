"""An elastic, framework-neutral parameter server for asynchronous, bounded-staleness and synchronous SGD.

Training code calls `connect` in workers and `serve` (or `python -m gangline.ps`) in servers; docs/parameter-server.md
explains the guarantees. Uses gangline.runtime and NumPy; imports nothing of the platform. The names are imported when
first used: a worker starts without what only servers need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.ps.entry import serve
    from gangline.ps.errors import (
        AuthenticationError,
        NonFiniteGradientError,
        OldMapError,
        OptimizerError,
        ParameterServerError,
        ReplacedError,
        ServerLostError,
        SettingsError,
        ShapeMismatchError,
        UnknownNameError,
    )
    from gangline.ps.server.resizing import resize
    from gangline.ps.settings import NonFinitePolicy, Settings
    from gangline.ps.worker.server_group import Limits
    from gangline.ps.worker.session import Session, Shard, connect

__all__ = [
    "AuthenticationError",
    "Limits",
    "NonFiniteGradientError",
    "NonFinitePolicy",
    "OldMapError",
    "OptimizerError",
    "ParameterServerError",
    "ReplacedError",
    "ServerLostError",
    "Session",
    "Settings",
    "SettingsError",
    "ShapeMismatchError",
    "Shard",
    "UnknownNameError",
    "connect",
    "resize",
    "serve",
]

_HOMES = {
    "Limits": "worker.server_group",
    "NonFinitePolicy": "settings",
    "Session": "worker.session",
    "Settings": "settings",
    "Shard": "worker.session",
    "connect": "worker.session",
    "resize": "server.resizing",
    "serve": "entry",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gangline.ps' has no attribute '{name}'")
    return getattr(import_module(f"gangline.ps.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
