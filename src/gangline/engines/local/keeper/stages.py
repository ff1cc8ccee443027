"""The stage process: data and code are moved by a child of the keeper, so that a stop can end it at any moment."""
# ruff: noqa: PTH100, PTH120  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import os
import signal
import sys

from . import launch
from .system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangline.engines.local.wire import Order

PERMANENT_FAILURE = 3
"""The exit code by which a stage says that another try would end the same."""

_MESSAGE_BYTES = 4000


class StageProcess:
    """A running stage."""

    def __init__(self, kind: str, directory: str, replicas: list[str], order: Order) -> None:
        self.kind, self.replicas = kind, replicas
        local = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        source = os.path.dirname(os.path.dirname(os.path.dirname(local)))
        program = f"import sys; sys.path[:0] = [{local!r}, {source!r}]; from keeper.movers import main; main()"
        # Unlike the keeper, a stage sees installed packages: they bring further storage schemes.
        command = [sys.executable, "-I", "-c", program, kind, directory, *replicas]
        pipes = launch.Pipes()
        environment = {**(order.environment or os.environ), launch.MARKER: f"{order.token}:{kind}"}
        self.pid = launch.spawn(command, environment, directory, pipes)
        pipes.close_writing()
        os.close(pipes.stdout)
        os.chdir("/")
        self.stderr = pipes.stderr
        self.wait_status: int | None = None
        self._said = b""

    def kill(self) -> None:
        """End it now: what it has not finished has only a draft's name."""
        processes.send_to_group(self.pid, signal.SIGKILL)

    def read(self) -> bool:
        """Take what it says; False once it will say no more."""
        try:
            data = os.read(self.stderr, 65536)
        except BlockingIOError:
            return True
        self._said = (self._said + data)[-_MESSAGE_BYTES:]
        return bool(data)

    def conclude(self) -> tuple[int, str]:
        """Return its exit code and what it said: why it failed, or what it left out."""
        self.read()
        os.close(self.stderr)
        assert self.wait_status is not None
        code = os.waitstatus_to_exitcode(self.wait_status)
        lines = self._said.decode(errors="replace").strip().splitlines()
        if code == 0:
            return code, "; ".join(lines)
        if code < 0:
            return code, f"the mover was killed by signal {-code}"
        return code, lines[-1] if lines else f"the mover ended with code {code}"
