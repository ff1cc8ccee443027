"""Saves the state of a training behind its back: the loop waits for a copy in memory, a thread writes it.

Knows tensors of PyTorch and arrays of JAX and NumPy, in dictionaries, lists and tuples; imports none of them unless the
state has them. The copies lie in buffers that are used again, page-locked for tensors of a GPU, so that the second copy
is as fast as memory allows. While one checkpoint is being written the next one waits: there is one set of buffers.
"""

from __future__ import annotations

import copy
import importlib
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangline.runtime.checkpoints import Checkpoints, load_arrays, save_arrays

if TYPE_CHECKING:
    from collections.abc import Callable

STATE = "state.pt"


class WriteBehind:
    """Saves states into ``checkpoints`` in the background. Not for use by several threads."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._buffers: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def save(self, step: int, state: Any) -> None:
        """Copy a state and return; it is written meanwhile. Raises what went wrong with the one before."""
        self._finish()
        copied = self._copy("", state)
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            # Copies from a GPU were only begun.
            torch.cuda.synchronize()
        write = _writer(copied)
        self._thread = threading.Thread(target=self._write, args=(step, write), name="checkpoint writer")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last state is saved, and at its address too if the checkpoints have one."""
        self._finish()
        self._checkpoints.wait()

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _write(self, step: int, write: Callable[[Path], None]) -> None:
        try:
            self._checkpoints.save(step, write)
        except BaseException as error:  # noqa: BLE001  # raised by the next save, or by wait
            self._failure = error

    def _copy(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._copy(f"{name}/{key}", entry) for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            entries = [self._copy(f"{name}/{number}", entry) for number, entry in enumerate(value)]
            # A named tuple takes its fields one by one.
            return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
        if (torch := sys.modules.get("torch")) is not None and isinstance(value, torch.Tensor):
            return self._copy_tensor(name, value, torch)
        if (numpy := sys.modules.get("numpy")) is not None:
            if _is_jax(value):
                # An array of JAX does not change, but its memory may be given to the next step: it is fetched now.
                value = numpy.asarray(value)
            if isinstance(value, numpy.ndarray):
                return self._copy_array(name, value, numpy)
        return copy.deepcopy(value)

    def _copy_tensor(self, name: str, tensor: Any, torch: Any) -> Any:
        tensor = tensor.detach()
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
            self._buffers[name] = buffer
        return buffer.copy_(tensor, non_blocking=tensor.is_cuda)

    def _copy_array(self, name: str, array: Any, numpy: Any) -> Any:
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != array.shape or buffer.dtype != array.dtype:
            buffer = self._buffers[name] = numpy.empty_like(array)
        numpy.copyto(buffer, array)
        return buffer


def load_state(path: Path) -> Any:
    """Read what ``WriteBehind`` saved: what torch wrote, on the CPU, or named arrays, nested as they were."""
    if (path / STATE).exists():
        torch = importlib.import_module("torch")
        return torch.load(path / STATE, map_location="cpu", weights_only=True)
    nested: dict[str, Any] = {}
    for name, array in load_arrays(path).items():
        *above, last = name.split("/")
        place = nested
        for part in above:
            place = place.setdefault(part, {})
        place[last] = array
    return nested


def _writer(state: Any) -> Callable[[Path], None]:
    """How a copied state is written: by torch if it has tensors, else as named arrays, without pickle."""
    torch = sys.modules.get("torch")
    if torch is not None and _holds(state, torch.Tensor):
        return lambda path: torch.save(state, path / STATE)
    named = dict(_named("", state))
    return lambda path: save_arrays(path, named)


def _holds(value: Any, kind: type) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(entry, kind) for entry in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds(entry, kind) for entry in value)
    return isinstance(value, kind)


def _named(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str) or "/" in key or not key]:
            raise TypeError(f"a state of arrays has names without '/', not {wrong[0]!r}")
        return [pair for key, entry in value.items() for pair in _named(f"{name}/{key}" if name else key, entry)]
    if not name or (not hasattr(value, "dtype") and not isinstance(value, (int, float, bool))):
        raise TypeError(f"{name or 'the state'}: a state without tensors is a dictionary of arrays and numbers")
    return [(name, value)]


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)
