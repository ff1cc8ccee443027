"""GPUs as ``nvidia-smi`` tells of them. No driver library is linked: a machine without GPUs needs nothing."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

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


def _device(line: str) -> Device:
    index, name, total, used, percent = (field.strip() for field in line.split(","))
    return Device(id=index, name=name, memory_mib=_whole(total), used_mib=_whole(used), percent=_whole(percent))


def _whole(text: str) -> int:
    """Some devices answer ``[N/A]`` to some questions."""
    return int(text) if text.isdigit() else 0
