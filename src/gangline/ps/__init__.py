"""An elastic, framework-neutral parameter server for asynchronous, bounded-staleness and synchronous SGD.

Training code calls `connect` in workers and `serve` (or `python -m gangline.ps`) in servers; docs/parameter-server.md
explains the guarantees. Uses gangline.runtime and NumPy; imports nothing of the platform.
"""

from gangline.ps.entry import serve
from gangline.ps.errors import (
    NonFiniteGradientError,
    OldMapError,
    ParameterServerError,
    ReplacedError,
    ServerLostError,
    SettingsError,
    ShapeMismatchError,
    UnknownNameError,
)
from gangline.ps.resize import resize
from gangline.ps.server_group import Limits
from gangline.ps.session import Session, Shard, connect
from gangline.ps.settings import NonFinitePolicy, Settings

__all__ = [
    "Limits",
    "NonFiniteGradientError",
    "NonFinitePolicy",
    "OldMapError",
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
