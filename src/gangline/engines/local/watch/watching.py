"""What is seen of running replicas from outside: processor time, the last line, and on request where they are."""

import asyncio
import os
import re
import shutil
import signal
from pathlib import Path

from gangline.engines.local.keeper.system import cgroups, processes
from gangline.engines.local.layout import Layout
from gangline.engines.local.nodes.devices import find_devices
from gangline.engines.local.nodes.usage import cpu_seconds
from gangline.engines.local.system_users import file_rights
from gangline.engines.local.wire import ReplicaOrder
from gangline.lifecycle.watching import Pulse
from gangline.model import GangId, ReplicaId, Timestamp
from gangline.runtime.stacks import SIGNAL_OFFSET

_LOOK_SECONDS = 0.02
_LOOKS = 250
_UNANSWERED = "no process could be asked: none imports gangline.runtime, and py-spy is absent or may not attach\n"
_PY_SPY_SECONDS = 20.0
_MOST_BYTES = 1 << 20
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>\S+)')
_PY_SPY_FRAME = re.compile(r"^\s+(?P<name>\S+) \((?P<file>[^:()]+):(?P<line>\d+)\)", re.MULTILINE)

Running = tuple[ReplicaOrder, int, str | None]


def pulses(layout: Layout, gang_id: GangId, running: list[Running]) -> dict[ReplicaId, Pulse]:
    """Look at every running replica of a gang."""
    busy = (
        {each.id for each in find_devices() if each.percent}
        if any(order.gpu_millis for order, *_ in running)
        else set()
    )
    return {
        ReplicaId.parse(order.name): Pulse(
            cpu_seconds=cpu_seconds(pid, group),
            output_at=_last_line_at(layout.logs(gang_id), order.name),
            gpu_busy=any(gpu in busy for gpu in order.gpu_millis),
        )
        for order, pid, group in running
    }


async def keep_stacks(
    layout: Layout, gang_id: GangId, running: list[Running], user: int | None
) -> dict[ReplicaId, str]:
    """Write the stacks of every running replica among the job's results; return where each one is, if that is told."""
    places = dict[ReplicaId, str]()
    folder = layout.job(gang_id.job_id) / "results" / "stacks" / str(gang_id.attempt)
    for order, pid, group in running:
        pids = (cgroups.members(group) if group else []) or [pid, *processes.descendants(pid)]
        found = [await _stacks(layout.stacks(gang_id, order.name), each, user) for each in pids]
        text = "".join(found) or _UNANSWERED
        # Files of the job are read and written with the rights of its user: a link in their place leads no further.
        with file_rights(user):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{order.name}.txt").write_text(text, encoding="utf-8")
        places[ReplicaId.parse(order.name)] = innermost(text)
    return places


def innermost(text: str) -> str:
    """Return the line of code where a program is: that of the thread that was asked, its innermost call."""
    found = _FRAME.search(text[max(text.find("Current thread"), 0) :]) or _PY_SPY_FRAME.search(text)
    return f"{Path(found['file']).name}:{found['line']} {found['name']}" if found else ""


async def _stacks(prefix: Path, pid: int, user: int | None) -> str:
    own = Path(f"{prefix}.{pid}")
    before = _size(own, user)
    text = await _py_spy(pid) if before is None else await _answer(own, before, pid, user)
    return f"process {pid}\n{text}\n" if text else ""


def _size(file: Path, user: int | None) -> int | None:
    """How much a program has answered so far; None if it does not answer."""
    with file_rights(user):
        return file.stat().st_size if file.is_file() else None


async def _answer(file: Path, before: int, pid: int, user: int | None) -> str:
    """Ask a program for its stacks; faulthandler answers though the interpreter itself may be stuck."""
    try:
        os.kill(pid, signal.SIGRTMIN + SIGNAL_OFFSET)
    except OSError:
        return ""
    text = ""
    for _ in range(_LOOKS):
        with file_rights(user), file.open("rb") as opened:
            opened.seek(before)
            now = opened.read(_MOST_BYTES).decode(errors="replace")
        if now and now == text:  # nothing more has come since the last look
            break
        text = now
        await asyncio.sleep(_LOOK_SECONDS)
    return text


async def _py_spy(pid: int) -> str:
    program = shutil.which("py-spy")
    if program is None:
        return ""
    quiet = asyncio.subprocess.DEVNULL
    asked = await asyncio.create_subprocess_exec(
        program, "dump", "--pid", str(pid), stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
    )
    try:
        async with asyncio.timeout(_PY_SPY_SECONDS):
            said, _ = await asked.communicate()
    except TimeoutError:
        asked.kill()
        await asked.wait()
        return ""
    return said.decode(errors="replace") if asked.returncode == 0 else ""


def _last_line_at(folder: Path, replica: str) -> Timestamp | None:
    try:
        moments = [each.stat().st_mtime for each in folder.glob(f"{replica}.*")]
    except OSError:  # a full log has just been taken away
        return None
    return Timestamp(max(moments)) if moments else None
