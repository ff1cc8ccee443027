"""Starting programs, each in its own session, and saying why one could not be started.

Programs are spawned, not forked: a fork copies the page tables of the interpreter, which costs more than the program's
own start. A spawned program takes its directory, its CPUs and its control group from whoever spawns it; so that is not
the keeper, but a starter: a short-lived child that takes on one replica's surroundings after the other. Several
starters share the work, one per CPU. When they end, what they started becomes the keeper's own child.

The programs of several replicas are stopped as soon as they are there, until the keeper releases them: the first would
otherwise take the processor from the start of the rest. That is for speed alone, and no promise to programs, which may
have run for a moment. Whatever kills the keeper meanwhile, its successor ends what is left, stopped or not.
"""
# ruff: noqa: PTH102, PTH110, PTH112, PTH113, PTH118, PTH123, PTH208  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal

from .system import cgroups, processes, users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangline.engines.local.wire import ReplicaOrder

MARKER = "GANGLINE_TOKEN"
"""The environment variable by which processes of a gang are known again, wherever they have gone."""

COMMAND_NOT_FOUND = 127
COMMAND_NOT_RUNNABLE = 126
SCRATCH_FOLDERS = ("", "/work", "/tmp")
"""A replica's home directory, and what lies in it: where it works, and its temporary files."""

_MOST_STARTERS = 8
_PIPE_BYTES = 1 << 18
_F_SETPIPE_SZ = 1031
_USUAL_DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)
_USERS_PROCESSES = 4
"""Where nothing counts a replica's processes, its user may have this many times more. ``RLIMIT_NPROC`` counts all of a
user's together, so a tighter limit would have one job's threads fail another's; without any, a program that forks
without end would take every process number of the machine."""
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class LaunchError(Exception):
    """A program could not be started; ``exit_code`` is what a shell would have answered."""

    def __init__(self, exit_code: int, message: str) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class Pipes:
    """Where a program's output goes: the ends that are read here, and the ends it writes to."""

    __slots__ = ("stderr", "stdout", "writing_stderr", "writing_stdout")

    def __init__(self) -> None:
        self.stdout, self.writing_stdout = _pipe()
        self.stderr, self.writing_stderr = _pipe()

    def close_writing(self) -> None:
        """Close the ends that belong to the program, once it has them."""
        os.close(self.writing_stdout)
        os.close(self.writing_stderr)

    def close_reading(self) -> None:
        """Close the ends that are read here."""
        os.close(self.stdout)
        os.close(self.stderr)


class Launch:
    """One replica to start, and what became of it: a process, or why there is none and the exit code for that.

    Without an exit code it is nobody's fault, and may be tried again.
    """

    __slots__ = (
        "exit_code",
        "group",
        "home",
        "message",
        "most_processes",
        "order",
        "pid",
        "pipes",
        "processes",
        "user",
    )

    def __init__(
        self,
        order: ReplicaOrder,
        home: str,
        group: str | None,
        *,
        processes: str | None = None,
        most_processes: int = 0,
        user: int | None = None,
    ) -> None:
        self.order = order
        self.home = home
        self.group = group
        self.processes = processes if most_processes else None
        self.most_processes = most_processes
        self.user = user
        self.pipes = Pipes()
        self.pid: int | None = None
        self.exit_code: int | None = COMMAND_NOT_RUNNABLE
        self.message = "the starter ended before it could start the program"


def begin(launches: list[Launch], gang_group: cgroups.GangGroup | None) -> list[int]:
    """Set about starting every program; returns what ``complete`` needs. Several are held until ``release``."""
    count = min(len(launches), len(os.sched_getaffinity(0)), _MOST_STARTERS)
    hold = len(launches) > 1
    starters = [_fork_starter(launches[number::count], gang_group, hold=hold) for number in range(count)]
    for each in launches:
        each.pipes.close_writing()
    return starters


def complete(launches: list[Launch], starters: list[int]) -> None:
    """Learn what became of every launch; returns when each program is there or has been refused.

    The starters may still be ending then: whoever collects the keeper's children collects them.
    """
    by_name = {each.order.name: each for each in launches}
    for answers in starters:
        with open(answers, "rb") as file:
            for line in file:
                name, *facts = json.loads(line)
                each = by_name[name]
                each.pid, each.exit_code, each.message, each.group = facts


def release(launches: list[Launch]) -> None:
    """Let the programs that were held go on, all at once."""
    for each in launches:
        if each.pid is not None:
            processes.send_to_group(each.pid, signal.SIGCONT)


def allow_many_descriptors() -> None:
    """Let the keeper hold the pipes of many replicas; those themselves get the usual limit."""
    _, most = _USUAL_DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def spawn(command: list[str], environment: dict[str, str], directory: str, pipes: Pipes) -> int:
    """Start a program in a session of its own; returns its process id once it runs. Raises LaunchError."""
    program = _find(command[0], environment.get("PATH", ""), directory)
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, pipes.writing_stdout, 1),
        (os.POSIX_SPAWN_DUP2, pipes.writing_stderr, 2),
    )
    try:
        os.chdir(directory)
        return os.posix_spawn(
            program, command, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESET_SIGNALS
        )
    except OSError as error:
        raise LaunchError(COMMAND_NOT_RUNNABLE, _refusal(command[0], program, directory, error)) from error


def _fork_starter(share: list[Launch], gang_group: cgroups.GangGroup | None, *, hold: bool) -> int:
    """Return where the starter's answers are read."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(writing)
        return reading
    try:
        processes.run_promptly()
        resource.setrlimit(resource.RLIMIT_NOFILE, _USUAL_DESCRIPTORS)
        users.take_on(share[0].user)
        for each in share:
            _launch_one(each, gang_group)
            if hold and each.pid is not None:
                processes.send_to_group(each.pid, signal.SIGSTOP)
            answer = [each.order.name, each.pid, each.exit_code, each.message, each.group]
            os.write(writing, json.dumps(answer).encode() + b"\n")
        _limit_groups(share, gang_group)
        # Before this process ends: the kernel takes it apart first, which the keeper need not wait for.
        os.close(writing)
    finally:
        os._exit(0)


def _launch_one(each: Launch, gang_group: cgroups.GangGroup | None) -> None:
    order = each.order
    try:
        with users.acting_as(each.user):
            make_scratch(each.home)
    except OSError as error:
        each.message = f"its directories cannot be made: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            each.exit_code = None
        return
    if order.cpus:
        os.sched_setaffinity(0, order.cpus)
    if gang_group is not None and each.group is not None and not cgroups.enter(each.group):
        each.group = None
    limited = False
    if gang_group is not None and each.processes is not None:
        limited = cgroups.limit_processes(each.processes, each.most_processes) and cgroups.join(each.processes)
        if not limited and gang_group.processes_home is not None:
            # Out of the group of the replica before.
            cgroups.join(gang_group.processes_home)
    try:
        with users.acting_as(each.user):
            each.pid = spawn(order.command, order.environment, order.directory or f"{each.home}/work", each.pipes)
    except LaunchError as error:
        each.exit_code, each.message = error.exit_code, str(error)
        return
    if order.memory_mib and each.group is None:
        _limit_data(each.pid, order.memory_mib)
    if each.most_processes and not limited:
        _limit_forks(each.pid, _USERS_PROCESSES * each.most_processes)


def make_scratch(home: str) -> None:
    """Make a replica's directories, as far as they are not there."""
    for folder in SCRATCH_FOLDERS:
        if not os.path.isdir(home + folder):
            with contextlib.suppress(FileExistsError):
                os.mkdir(home + folder, mode=0o700)


def _limit_groups(share: list[Launch], gang_group: cgroups.GangGroup | None) -> None:
    """Set the limits once this process is out of the groups: they are not meant to hit the starter."""
    if gang_group is None:
        return
    cgroups.join(gang_group.home)
    if gang_group.processes_home is not None:
        cgroups.join(gang_group.processes_home)
    for each in share:
        memory_mib = each.order.memory_mib
        if not memory_mib or each.pid is None or each.group is None:
            continue
        if not cgroups.limit_memory(each.group, memory_mib):
            _limit_data(each.pid, memory_mib)


def _limit_data(pid: int, memory_mib: int) -> None:
    """Limit one process, where there is no control group to limit them all."""
    size = memory_mib << 20
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))


def _limit_forks(pid: int, most: int) -> None:
    """Have a program's forks fail while its user has that many processes, where nothing counts those of a replica."""
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))


def _find(name: str, search_path: str, directory: str) -> str:
    """Return the file that a shell in that directory would run."""
    folders = [""] if "/" in name else search_path.split(":")
    present = False
    for folder in folders:
        candidate = os.path.join(directory, folder, name)
        if os.path.isfile(candidate):
            present = True
            if os.access(candidate, os.X_OK):
                return candidate
    if present:
        raise LaunchError(COMMAND_NOT_RUNNABLE, f"'{name}' cannot be run: it is not executable (chmod +x {name})")
    nearest = _nearest_executable(name, search_path)
    suggestion = f"; did you mean '{nearest}'?" if nearest else ""
    raise LaunchError(COMMAND_NOT_FOUND, f"command not found: '{name}'{suggestion}")


def _refusal(name: str, program: str, directory: str, error: OSError) -> str:
    if error.filename == directory:
        return f"the working directory cannot be entered: {error.strerror}"
    if error.errno == errno.ENOENT and os.path.exists(program):
        return f"'{name}' cannot be run: the interpreter in its first line is missing"
    return f"'{name}' cannot be run: {error.strerror}"


def _nearest_executable(command: str, search_path: str) -> str | None:
    # Only a failure pays for this import.
    import difflib

    names: set[str] = set()
    for folder in search_path.split(":"):
        try:
            names.update(os.listdir(folder or "."))
        except OSError:
            continue
    return next(iter(difflib.get_close_matches(command.rpartition("/")[2], sorted(names), n=1)), None)


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reading, False)
    try:
        fcntl.fcntl(writing, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        # Above the user's pipe quota the kernel keeps the small default: slower, not wrong.
        return reading, writing
    return reading, writing
