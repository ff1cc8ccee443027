"""Control groups: limits on memory and processes, and a list of members that no process can leave, where permitted.

Both versions are spoken. A group for the gang is made below the keeper's own group, or below the nearest ancestor that
hands the memory controller down; one group per replica below that. Where nothing can be made, callers fall back to
resource limits.
"""
# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH123  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import os

OWN_GROUPS = "/proc/self/cgroup"
MOUNTS = "/proc/self/mountinfo"


class Hierarchy:
    """One mounted hierarchy, and where in it this process is."""

    def __init__(self, mount: str, own: str, *, version: int) -> None:
        self.mount = mount
        self.own = own
        self.version = version


class GangGroup:
    """The group of a gang, and the group its keeper belongs to.

    ``processes`` is where the number of processes is limited: the same in version 2, a group of another hierarchy in
    version 1, and None where there is nothing to limit them with.
    """

    def __init__(self, path: str, home: str, processes: str | None, processes_home: str | None) -> None:
        self.path = path
        self.home = home
        self.processes = processes
        self.processes_home = processes_home

    def processes_of(self, replica: str) -> str | None:
        """Where the processes of one replica are counted."""
        return f"{self.processes}/{replica}" if self.processes is not None else None

    def remove(self) -> None:
        """Remove every group of the gang."""
        remove(self.path)
        if self.processes is not None and self.processes != self.path:
            remove(self.processes)


def hierarchies(controller: str, own_groups: str = OWN_GROUPS, mounts: str = MOUNTS) -> list[Hierarchy]:
    """Return the hierarchies this process is in that may carry a controller, the likelier first."""
    memberships: dict[str, str] = {}
    with open(own_groups, encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            memberships[controllers] = path
    found = []
    with open(mounts, encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            root, mount = fields[3], fields[4]
            kind, _, options = fields[fields.index("-") + 1 :][:3]
            if kind == "cgroup" and controller in options.split(","):
                own = next((path for names, path in memberships.items() if controller in names.split(",")), None)
                version = 1
            elif kind == "cgroup2":
                own, version = memberships.get(""), 2
            else:
                continue
            if own is not None:
                found.append(Hierarchy(mount, mount + _below(own, root), version=version))
    return sorted(found, key=lambda hierarchy: hierarchy.version)


def make_gang_group(token: str) -> GangGroup | None:
    """Make the group that holds the replicas' groups, unless it is there; None where the system does not permit it.

    Starters enter the replicas' groups in turn, and go home afterwards.
    """
    try:
        places = hierarchies("memory")
    except OSError:
        return None
    for hierarchy in places:
        place = hierarchy.own.rstrip("/")
        while place.startswith(hierarchy.mount.rstrip("/")):
            group = f"{place}/gangline-{token}"
            if _make_with_memory(group, hierarchy.version):
                return _with_processes(group, hierarchy, token)
            if place == hierarchy.mount.rstrip("/") or hierarchy.version == 1:
                break
            place = place.rpartition("/")[0]
    return None


def _with_processes(group: str, hierarchy: Hierarchy, token: str) -> GangGroup:
    try:
        if hierarchy.version == 2:
            _write(f"{group}/cgroup.subtree_control", "+pids")
            return GangGroup(group, hierarchy.own, group, None)
        for other in hierarchies("pids"):
            if other.version == 1:
                processes = f"{other.own.rstrip('/')}/gangline-{token}"
                os.makedirs(processes, exist_ok=True)
                return GangGroup(group, hierarchy.own, processes, other.own)
    except OSError:
        pass
    return GangGroup(group, hierarchy.own, None, None)


def make(group: str) -> None:
    """Make a group below one that is there, unless somebody else has just done so."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(group)


def wait_for_kernel() -> None:
    """Have the kernel's wait before the first move behind us when the real moves come.

    It lets some ten milliseconds pass before it moves a process after a time without moves, and none before the moves
    that follow soon. This moves the calling process to where it is; where that is not permitted, no other move is.
    """
    with contextlib.suppress(OSError):
        for hierarchy in hierarchies("memory")[:1]:
            join(hierarchy.own)


def limit_memory(group: str, memory_mib: int) -> bool:
    """Set how much the members may use together; False if the system refuses."""
    limit = str(memory_mib << 20)
    try:
        if os.path.exists(f"{group}/memory.max"):
            _write(f"{group}/memory.max", limit)
            _write_if_there(f"{group}/memory.swap.max", "0")
        else:
            _write(f"{group}/memory.limit_in_bytes", limit)
            _write_if_there(f"{group}/memory.memsw.limit_in_bytes", limit)
    except OSError:
        return False
    return True


def limit_processes(group: str, most: int) -> bool:
    """Set how many processes and threads there may be in a group, which is made if need be; False if refused."""
    try:
        os.makedirs(group, exist_ok=True)
        _write(f"{group}/pids.max", str(most))
    except OSError:
        return False
    return True


def refused_processes(group: str) -> int:
    """Return how often a process was refused because the group was at its limit."""
    text = _read(f"{group}/pids.events") or ""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("max ")), 0)


def enter(group: str) -> bool:
    """Join a group, making it first if it is not there; False if the system refuses."""
    if join(group):
        return True
    try:
        os.makedirs(group, exist_ok=True)
    except OSError:
        return False
    return join(group)


def join(group: str) -> bool:
    """Move the calling process into a group, and what it starts from now on; False if the system refuses."""
    try:
        _write(f"{group}/cgroup.procs", "0")
    except OSError:
        return False
    return True


def members(group: str) -> list[int]:
    """Return the processes in a group; none if the group is gone."""
    return [int(line) for line in (_read(f"{group}/cgroup.procs") or "").split()]


def memory_bytes(group: str) -> int | None:
    """Return what the group uses, the file cache included."""
    text = _read(f"{group}/memory.current") or _read(f"{group}/memory.usage_in_bytes")
    return int(text) if text else None


def out_of_memory_kills(group: str) -> int:
    """Return how many members the kernel has killed because the group was at its limit."""
    text = _read(f"{group}/memory.events") or _read(f"{group}/memory.oom_control") or ""
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0


def remove(group: str) -> bool:
    """Remove an empty group and those below it; False if the system refuses, which it does while a member lives."""
    try:
        below = [entry.path for entry in os.scandir(group) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return not os.path.exists(group)
    for inner in below:
        remove(inner)
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True


def _make_with_memory(group: str, version: int) -> bool:
    try:
        os.makedirs(group, exist_ok=True)
        if version == 2:
            # Only a group whose parent hands the controller down may hand it down itself.
            _write(f"{group}/cgroup.subtree_control", "+memory")
    except OSError:
        remove(group)
        return False
    return True


def _below(path: str, root: str) -> str:
    """A mount may show only the part of the hierarchy below ``root``, as in containers."""
    if root == "/":
        return path
    return path[len(root) :] if path.startswith(root) else ""


def _write_if_there(path: str, text: str) -> None:
    if os.path.exists(path):
        _write(path, text)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None
