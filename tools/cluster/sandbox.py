"""One pretended machine: network, mount, host-name and process namespaces of its own, held open by one process.

Killing that process ends everything inside and takes the mounts and links with it, which is what makes ``down``
complete whatever state the cluster is in. The namespaces have no names on the host, so nothing of them can be left.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.errors import ClusterError
from tools.cluster.host import program
from tools.cluster.processes import Processes, children, running, wait_until

INSIDE_BINARIES = Path("/var/lib/bin")
"""Where a node finds the components: its view of the host's folders is covered by its own."""

# A kubelet sets these for the whole host unless they already read as it wishes; so it is shown files that do.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

_SETUP = """
set -e
folder=$1 name=$2 binaries=$3
hostname "$name"
if [ -d "$folder/lib" ]; then
  mount --bind "$binaries" "$folder/lib/bin"
  mount --rbind "$folder/lib" /var/lib
  mount --bind "$folder/log" /var/log
  mount --bind "$folder/run" /run
  cd "$folder/kernel"
  find . -type f | while read -r setting; do
    if [ -e "/proc/sys/$setting" ]; then mount --bind "$folder/kernel/$setting" "/proc/sys/$setting"; fi
  done
fi
touch "$folder/ready"
exec "$4"
"""


class Sandbox:
    """One machine of the cluster, named in the process records as ``machine-NAME``."""

    def __init__(self, name: str, folder: Path, processes: Processes) -> None:
        self.name = name
        self._folder = folder
        self._processes = processes

    @property
    def pid(self) -> int:
        """The first process inside, as the host numbers it."""
        record = self._processes.find(f"machine-{self.name}")
        inside = children(record.pid) if record is not None else []
        if not inside:
            raise ClusterError(f"machine {self.name} does not run")
        return inside[0]

    def create(self, binaries: Path, *, own_disk: bool) -> None:
        """Make the namespaces; with ``own_disk`` the machine sees folders of its own where a node keeps its state."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if own_disk:
            self._lay_out_disk()
        pause = INSIDE_BINARIES / "pause" if own_disk else binaries / "pause"
        namespaces = ["--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
        script = [program("sh"), "-c", _SETUP, "setup", str(self._folder), self.name, str(binaries), str(pause)]
        command = [program("unshare"), *namespaces, "--kill-child=SIGKILL", *script]
        record = self._processes.start(f"machine-{self.name}", command)
        ready = self._folder / "ready"
        wait_until(lambda: ready.exists() or not record.alive, seconds=60)
        if not ready.exists():
            raise self._processes.failure(f"machine-{self.name}", "could not be set up")

    def command(self, command: Sequence[str]) -> list[str]:
        """Spell a command so that it runs inside."""
        # Not `ip netns exec`: that mounts /sys anew, and a kubelet then finds no control groups.
        return [program("nsenter"), f"--target={self.pid}", "--mount", "--net", "--uts", "--pid", "--", *command]

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a long-running process inside."""
        self._processes.start(name, self.command(command))

    def run(self, command: Sequence[str], *, stdin: int | None = None) -> str:
        """Run a command inside and return its output."""
        result = subprocess.run(
            self.command(command), stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise ClusterError(f"{' '.join(command)} on {self.name}: {result.stderr.strip()}")
        return result.stdout

    def destroy(self) -> None:
        """Kill everything inside at once."""
        record = self._processes.find(f"machine-{self.name}")
        if record is None or not record.alive:
            return
        inside = children(record.pid)
        # `unshare` takes the first process inside with it, and that one the rest; it is gone when they all are.
        self._processes.stop(record.name, signal.SIGKILL)
        if not wait_until(lambda: not any(map(running, inside)), seconds=60):
            raise ClusterError(f"machine {self.name} cannot be killed: a process in it waits for the disk")

    def _lay_out_disk(self) -> None:
        for part in ("lib/bin", "log", "run", "kernel"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        for setting, value in _KERNEL_SETTINGS.items():
            file = self._folder / "kernel" / setting
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n", encoding="utf-8")


class Host:
    """This machine itself, for a control plane that has no nodes and so needs no network of its own."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a long-running process."""
        self._processes.start(name, command)

    def destroy(self) -> None:
        """Kill everything that was started."""
        for record in self._processes.all():
            self._processes.stop(record.name, signal.SIGKILL)
