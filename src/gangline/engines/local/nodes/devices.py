"""GPUs as ``nvidia-smi`` tells of them. No driver library is linked: a machine without GPUs needs nothing."""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_FIELDS = ("index", "name", "memory.total", "memory.used", "utilization.gpu")
_HEALTH_FIELDS = ("index", "ecc.errors.uncorrected.volatile.total", "retired_pages.pending")
_LOST = re.compile(r"GPU is lost|Unknown Error|Unable to determine the device handle", re.IGNORECASE)
"""How nvidia-smi says that a GPU no longer answers: in place of a value, or in place of the GPU."""
_FELL_OFF = "it has fallen off the bus"
_NO_MODEL = re.compile(r"nvidia|tesla|geforce|quadro|pcie|sxm\d*|hbm\w*|nvl|\d+gi?b")
"""Words of a product name that do not say which model it is: maker, family, form and size."""
_QUERY_SECONDS = 20.0
CAPABILITIES = Path("/dev/nvidia-caps")
"""Where the driver keeps what it takes to use a slice of a GPU."""
DRIVER = Path("/proc/driver/nvidia/gpus")
"""Where the driver describes each GPU, in a folder with the name of its place on the PCI bus."""
FILES = Path("/dev")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_GPU_LINE = re.compile(r"GPU (\d+):.*?(?:\(UUID: (\S+)\))?$")
_log = logging.getLogger(__name__)
_SLICE_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (\S+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU at one moment. ``id`` is its number in the order of the PCI bus.

    A slice of a GPU (MIG) is a device of its own: ``profile`` says of what size, and its id is the one that CUDA knows.
    """

    id: str
    name: str
    memory_mib: int
    used_mib: int
    percent: int
    profile: str | None = None
    uuid: str = ""
    """What CUDA knows it by whatever other GPUs a program sees; empty where that was not asked."""
    file: str = ""
    """What programs open to use it, or the GPU that it is a slice of; empty where that cannot be told."""

    @property
    def resource(self) -> str | None:
        """What a slice is asked for as, in the words of the maker's device plugin; None for a whole GPU."""
        return None if self.profile is None else f"nvidia.com/mig-{self.profile.replace('+', '.')}"

    @property
    def type(self) -> str:
        """The model as placement rules name it, for example ``h200`` or ``rtx-a6000``."""
        words = re.split(r"[\s_-]+", self.name.lower())
        return "-".join(word for word in words if not _NO_MODEL.fullmatch(word)) or "gpu"

    @property
    def identity(self) -> tuple[str, str, int]:
        """What does not change while it is the same device."""
        return self.id, self.name, self.memory_mib


@dataclass(frozen=True, slots=True)
class GangDevices:
    """What the programs of a gang get to see of GPUs, where those of other tenants are closed to them."""

    devices: tuple[Device, ...] = ()

    @classmethod
    def of(cls, devices: Iterable[Device]) -> "GangDevices":
        """Of all GPUs of a machine; of none if one has a file that is not known, for it might be closed to its user."""
        found = tuple(devices)
        return cls(found if all(device.file for device in found) else ())

    @property
    def files(self) -> dict[str, str]:
        """What is opened to use each of them."""
        return {device.id: device.file for device in self.devices}

    def names_of(self, held: Iterable[str]) -> tuple[str, ...]:
        """Return what CUDA knows GPUs by: numbers are of what a program can open, which may come to be more."""
        uuids = {each.id: each.uuid for each in self.devices if each.uuid}
        return tuple(uuids.get(gpu, gpu) for gpu in held)


class DeviceWatch:
    """The GPUs of this machine, as they come. Asking is slow, so it is done again only where the answer may differ."""

    def __init__(self) -> None:
        self.devices: tuple[Device, ...] = ()
        self.faults: Mapping[str, str] = {}
        """What is wrong with those that have errors, by their ids."""
        self._signs: tuple[str, ...] | None = None

    def examine(self) -> bool:
        """Ask how the GPUs are; True if that is not as before. No answer changes nothing."""
        known = [device.id for device in self.devices if device.profile is None]
        query = f"--query-gpu={','.join(_HEALTH_FIELDS)}"
        found = faults_in(_ask(query, "--format=csv,noheader,nounits") if known else "", known)
        before, self.faults = self.faults, self.faults if found is None else found
        return before != self.faults

    def look(self) -> bool:
        """Look for GPUs; True if they are others than before. No answer takes none away: the tool may be busy."""
        signs = _signs()
        if not signs or (self.devices and signs == self._signs):
            return False
        found, self._signs = with_slices(find_devices()), signs
        if not found or [device.identity for device in found] == [device.identity for device in self.devices]:
            return False
        self.devices = found
        return True


def faults_in(answer: str, known: Sequence[str]) -> Mapping[str, str] | None:
    """Read what is wrong with GPUs, by their ids; None if the answer says nothing of any.

    Where the tool says that a GPU is lost, those of ``known`` that it does not list are.
    """
    rows = [[field.strip() for field in line.split(",")] for line in answer.splitlines()]
    told = {row[0]: row[1:] for row in rows if len(row) == len(_HEALTH_FIELDS) and row[0].isdigit()}
    lost = _LOST.search(answer) is not None
    if not told and not lost:
        return None
    faults = {gpu: fault for gpu, (errors, pages) in told.items() if (fault := _fault(errors, pages))}
    return faults | {gpu: _FELL_OFF for gpu in known if lost and gpu not in told}


def _fault(errors: str, pages: str) -> str:
    if _LOST.search(f"{errors} {pages}"):
        return _FELL_OFF
    if _whole(errors):
        return f"uncorrected ECC errors: {errors}"
    return "memory pages are to be retired: reset it" if pages == "Yes" else ""


def _ask(*words: str) -> str:
    """All that the tool says, even when it fails: it does where one of several GPUs is lost."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    try:
        answer = subprocess.run([tool, *words], capture_output=True, text=True, timeout=_QUERY_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{answer.stdout}\n{answer.stderr}"


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


def with_slices(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The same GPUs with their files and UUIDs, and those that are cut into slices replaced by these."""
    files = device_files()
    # A single GPU needs no other name, and where the driver has no capabilities to hand out, no GPU can be cut.
    asking = len(files) > 1 or any(CAPABILITIES.glob("nvidia-cap*"))
    lines = _ask("-L").splitlines() if devices and asking else []
    listed = {found[1]: found[2] or "" for line in lines if (found := _GPU_LINE.match(line))}
    if len(files) > 1 and len(listed) != len(files):
        _log.warning("which file is which GPU's is not known: %d files, %d GPUs", len(files), len(listed))
        files = ()
    whole = {each.id: replace(each, uuid=listed.get(each.id, ""), file=_file_of(each.id, files)) for each in devices}
    slices: list[Device] = []
    cut: set[str] = set()
    at = ""
    for line in lines:
        if gpu := _GPU_LINE.match(line):
            at = gpu[1]
        elif (found := _SLICE_LINE.match(line)) and at in whole:
            cut.add(at)
            slices.append(replace(whole[at], id=found[2], uuid=found[2], profile=found[1], used_mib=0, percent=0))
    return (*(device for device in whole.values() if device.id not in cut), *slices)


def device_files() -> tuple[str, ...]:
    """The files of all GPUs in the order of the PCI bus, which the driver need not number them in."""
    numbers = []
    for folder in sorted(DRIVER.glob("*")):
        try:
            minor = _MINOR.search((folder / "information").read_text())
        except OSError:
            continue
        if minor is not None and (FILES / f"nvidia{minor[1]}").exists():
            numbers.append(int(minor[1]))
    if not numbers:
        numbers = sorted(int(path.name[len("nvidia") :]) for path in FILES.glob("nvidia[0-9]*"))
    return tuple(str(FILES / f"nvidia{number}") for number in numbers)


def _file_of(device_id: str, files: Sequence[str]) -> str:
    return files[int(device_id)] if int(device_id) < len(files) else ""


def _signs() -> tuple[str, ...]:
    """What is cheap to see of GPUs: the tool, and the driver's files. Nothing if there is no tool to ask."""
    tool = shutil.which("nvidia-smi")
    return () if tool is None else (tool, *sorted(path.name for path in FILES.glob("nvidia[0-9]*")))


def _device(line: str) -> Device:
    index, name, total, used, percent = (field.strip() for field in line.split(","))
    return Device(id=index, name=name, memory_mib=_whole(total), used_mib=_whole(used), percent=_whole(percent))


def _whole(text: str) -> int:
    """Some devices answer ``[N/A]`` to some questions."""
    return int(text) if text.isdigit() else 0
