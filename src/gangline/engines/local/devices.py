"""GPUs as ``nvidia-smi`` tells of them. No driver library is linked: a machine without GPUs needs nothing."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_FIELDS = ("index", "name", "memory.total", "memory.used", "utilization.gpu")
_NO_MODEL = re.compile(r"nvidia|tesla|geforce|quadro|pcie|sxm\d*|hbm\w*|nvl|\d+gi?b")
"""Words of a product name that do not say which model it is: maker, family, form and size."""
_QUERY_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU at one moment. ``id`` is its number in the order of the PCI bus."""

    id: str
    name: str
    memory_mib: int
    used_mib: int
    percent: int

    @property
    def type(self) -> str:
        """The model as placement rules name it, for example ``h200`` or ``rtx-a6000``."""
        words = re.split(r"[\s_-]+", self.name.lower())
        return "-".join(word for word in words if not _NO_MODEL.fullmatch(word)) or "gpu"

    @property
    def identity(self) -> tuple[str, str, int]:
        """What does not change while it is the same device."""
        return self.id, self.name, self.memory_mib


class DeviceWatch:
    """The GPUs of this machine, as they come. Asking is slow, so it is done again only where the answer may differ."""

    def __init__(self) -> None:
        self.devices: tuple[Device, ...] = ()
        self._signs: tuple[str, ...] | None = None

    def look(self) -> bool:
        """Look for GPUs; True if they are others than before. No answer takes none away: the tool may be busy."""
        signs = _signs()
        if not signs or (self.devices and signs == self._signs):
            return False
        found, self._signs = find_devices(), signs
        if not found or [device.identity for device in found] == [device.identity for device in self.devices]:
            return False
        self.devices = found
        return True


def find_devices() -> tuple[Device, ...]:
    """Ask for every GPU that this process may use; none if there is no tool to ask or it cannot answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    devices = tuple(_device(line) for line in answer.stdout.splitlines() if line.count(",") == len(_FIELDS) - 1)
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return devices
    return tuple(device for device in devices if device.id in allowed.replace(" ", "").split(","))


def _signs() -> tuple[str, ...]:
    """What is cheap to see of GPUs: the tool, and the driver's files. Nothing if there is no tool to ask."""
    tool = shutil.which("nvidia-smi")
    return () if tool is None else (tool, *sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")))


def _device(line: str) -> Device:
    index, name, total, used, percent = (field.strip() for field in line.split(","))
    return Device(id=index, name=name, memory_mib=_whole(total), used_mib=_whole(used), percent=_whole(percent))


def _whole(text: str) -> int:
    """Some devices answer ``[N/A]`` to some questions."""
    return int(text) if text.isdigit() else 0
