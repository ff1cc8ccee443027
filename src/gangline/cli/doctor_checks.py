"""What ``gangline doctor`` looks at here: one small function per question, each with what to do about a bad answer."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from gangline import __version__
from gangline.cli import terminal
from gangline.cli.output import formatting
from gangline.compose.findings import Finding, Health
from gangline.errors import GanglineError
from gangline.kinds.registry import registered, unloadable
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process
from gangline.settings import Settings

_LEAST_DISK_MIB = 1024
_MOST_SKEW_SECONDS = 2.0
_LEAST_PYTHON = (3, 11)
_GPU_SECONDS = 10


def _good(subject: str, found: str) -> Finding:
    return Finding(subject=subject, health=Health.GOOD, found=found)


def check_python(settings: Settings) -> Finding:
    """Is this Python new enough?"""
    found = platform.python_version()
    if sys.version_info[:2] >= _LEAST_PYTHON:
        return _good("python", found)
    fix = "install Python 3.11 or newer"
    return Finding(subject="python", health=Health.BAD, found=found, fix=fix)


def check_cgroups(settings: Settings) -> Finding:
    """Can memory limits be held by control groups?"""
    v2, v1 = Path("/sys/fs/cgroup/cgroup.controllers"), Path("/sys/fs/cgroup/memory")
    version, place = ("v2", v2.parent) if v2.exists() else ("v1", v1)
    if not place.exists():
        found = "none; memory limits fall back to address-space limits"
        return Finding(subject="cgroups", health=Health.LIMITED, found=found, fix="mount /sys/fs/cgroup")
    if os.access(place, os.W_OK):
        return _good("cgroups", f"{version}, writable")
    return Finding(
        subject="cgroups",
        health=Health.LIMITED,
        found=f"{version}, not writable; memory limits fall back to address-space limits",
        fix="run under 'systemd-run --user --scope -p Delegate=yes' or as root",
    )


def check_loopback(settings: Settings) -> Finding:
    """Can every replica have a loopback address of its own?"""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError as error:
            fix = "ip link set lo up; ip address add 127.0.0.1/8 dev lo"
            return Finding(subject="loopback", health=Health.BAD, found=f"127.0.0.2: {error.strerror}", fix=fix)
    return _good("loopback", "127.0.0.0/8 is usable")


def check_disk(settings: Settings) -> Finding:
    """Is there room for logs and results?"""
    place = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    free_mib = shutil.disk_usage(place).free // 2**20
    found = f"{formatting.memory(free_mib)} free in {settings.home}"
    if free_mib >= _LEAST_DISK_MIB:
        return _good("disk", found)
    fix = "delete old jobs (gangline prune --older-than 7d) or move GANGLINE_HOME"
    return Finding(subject="disk", health=Health.BAD, found=found, fix=fix)


def check_gpus(settings: Settings) -> Finding:
    """Are there GPUs, and does their driver answer?"""
    program = shutil.which("nvidia-smi")
    if program is None:
        return _good("gpu", "none")
    try:
        answer = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_GPU_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        fix = "reinstall the NVIDIA driver; 'nvidia-smi' must succeed"
        return Finding(subject="gpu", health=Health.BAD, found=f"nvidia-smi fails: {error}", fix=fix)
    names = answer.stdout.split("\n")[:-1]
    return _good("gpu", f"{len(names)}: {', '.join(sorted(set(names)))}")


def check_socket(settings: Settings) -> Finding:
    """Is the place of the socket private and short enough?"""
    directory = settings.runtime_directory
    if len(os.fsencode(settings.socket)) > 107:
        fix = "set GANGLINE_RUNTIME_DIRECTORY to a shorter path"
        return Finding(subject="socket", health=Health.BAD, found=f"{settings.socket} is too long", fix=fix)
    place = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    status = place.stat()
    # What is still to be made is made in a directory of ours, or in one of the system's where we may; in any other its
    # owner may replace it.
    ours = place == directory or str(place).startswith("/tmp/gangline-") or not os.access(place, os.W_OK | os.X_OK)
    if status.st_uid != os.getuid() and (ours or status.st_uid != 0):
        fix = "set GANGLINE_RUNTIME_DIRECTORY to a directory of your own"
        return Finding(subject="socket", health=Health.BAD, found=f"{place} belongs to somebody else", fix=fix)
    if place != directory:
        return _good("socket", f"{settings.socket} (made at the first start)")
    if status.st_mode & 0o077:
        fix = f"chmod 700 {directory}, or set GANGLINE_RUNTIME_DIRECTORY"
        return Finding(subject="socket", health=Health.BAD, found=f"{directory} is open to others", fix=fix)
    return _good("socket", str(settings.socket))


def check_service(settings: Settings) -> Finding:
    """Does the service answer, and is it as new as this program?"""
    try:
        process = running_process(settings)
        if process is None:
            return _good("service", "not running; the next command that needs it starts it")
        version = Client(address_of(settings), settings=settings).version()
    except GanglineError as error:
        fix = f"gangline server stop; gangline server start; its log is {settings.log_file}"
        return Finding(subject="service", health=Health.BAD, found=str(error), fix=fix)
    if version == __version__:
        return _good("service", f"version {version}, process {process}")
    found = f"version {version}, but this program is {__version__}"
    return Finding(
        subject="service",
        health=Health.LIMITED,
        found=found,
        fix="gangline server stop; the next command starts a new one",
    )


def check_clock(settings: Settings) -> Finding:
    """Does the disk that keeps the jobs agree with this machine about the time?"""
    place = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=place) as file:
            skew = abs(Path(file.name).stat().st_mtime - terminal.now())
    except OSError as error:
        fix = "make it writable, or set GANGLINE_HOME"
        return Finding(subject="clock", health=Health.BAD, found=f"{place}: {error.strerror}", fix=fix)
    if skew <= _MOST_SKEW_SECONDS:
        return _good("clock", "agrees with the disk")
    fix = "synchronise the clocks of this machine and its file server (chrony, systemd-timesyncd)"
    return Finding(subject="clock", health=Health.BAD, found=f"differs from the disk's by {skew:.1f} s", fix=fix)


def check_kinds(settings: Settings) -> Finding:
    """Can the kinds of other packages be loaded?"""
    broken = unloadable()
    if not broken:
        return _good("kinds", ", ".join(sorted(registered())))
    found = "; ".join(f"{name}: {reason}" for name, reason in broken.items())
    fix = f"repair or uninstall what registers {', '.join(registered()[name] for name in broken)}"
    return Finding(subject="kinds", health=Health.BAD, found=found, fix=fix)


CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    check_python,
    check_cgroups,
    check_loopback,
    check_disk,
    check_gpus,
    check_socket,
    check_service,
    check_clock,
    check_kinds,
)
