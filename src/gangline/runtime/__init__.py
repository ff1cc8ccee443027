"""What runs inside a job: who am I, where are the others, where do results go, and when must I stop.

Training programs import this package; so does gangline.ps. It needs the standard library alone (NumPy only for
checkpoints of arrays, imported when used) and imports nothing of the platform: a training image carries it
without carrying a scheduler. Outside a job everything still works, as for a job of one replica.
"""

from gangline.runtime import stacks
from gangline.runtime.checkpoints import Checkpoint, Checkpoints, load_arrays, save_arrays
from gangline.runtime.errors import (
    ContractError,
    CorruptCheckpointError,
    MirrorError,
    RendezvousError,
    RuntimeLibraryError,
)
from gangline.runtime.metrics import report
from gangline.runtime.peers import rendezvous
from gangline.runtime.replica import Replica, current
from gangline.runtime.stop import on_stop, stopping
from gangline.runtime.write_behind import WriteBehind, load_state

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "ContractError",
    "CorruptCheckpointError",
    "MirrorError",
    "RendezvousError",
    "Replica",
    "RuntimeLibraryError",
    "WriteBehind",
    "current",
    "load_arrays",
    "load_state",
    "on_stop",
    "rendezvous",
    "report",
    "save_arrays",
    "stopping",
]

stacks.offer()
