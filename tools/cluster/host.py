"""What the machine must offer: Linux, root, some Debian packages, and control groups that can be written.

Asked before anything is started, so that a machine that cannot run the cluster says so in one line.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import apt
from tools.cluster.build import Report
from tools.cluster.errors import UnsupportedMachineError

CONTROL_GROUPS = Path("/sys/fs/cgroup")
NETWORK_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_PACKAGE_OF = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",  # only pods with host ports need it
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
}
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def program(name: str) -> str:
    """Find a program; administrators' folders count even where they are not on the caller's path."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SEARCH_PATH}")
    if found is None:
        raise UnsupportedMachineError(f"{name} is not installed (Debian package {_PACKAGE_OF.get(name, name)})")
    return found


def network_plugins() -> Path:
    """Find the folder of the container network plug-ins."""
    for folder in NETWORK_PLUGINS:
        if (folder / "ptp").exists():
            return folder
    raise UnsupportedMachineError("no container network plug-ins (Debian package containernetworking-plugins)")


def prepare(report: Report, *, nodes: int) -> None:
    """Make sure this machine can run the cluster, installing packages where that is possible.

    A control plane without nodes needs hardly anything, and nobody's permission.
    """
    if not sys.platform.startswith("linux"):
        raise UnsupportedMachineError("the cluster needs Linux namespaces, and this is not Linux")
    if not nodes:
        program("openssl")
        return
    if os.geteuid() != 0:
        raise UnsupportedMachineError("the cluster needs root: its nodes are namespaces with networks and mounts")
    if not os.access(CONTROL_GROUPS, os.W_OK):
        raise UnsupportedMachineError(f"{CONTROL_GROUPS} cannot be written, so kubelets cannot run pods")
    missing = _missing_packages()
    if missing:
        report(f"installing {' '.join(missing)} (about 20 s)")
        refusal = apt.install(missing)
        still = _missing_packages()
        if still:
            raise UnsupportedMachineError(f"please install {', '.join(still)}: {refusal}")
    probe = [program("unshare"), "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", program("true")]
    result = subprocess.run(probe, capture_output=True, text=True, check=False)
    if result.returncode:
        raise UnsupportedMachineError(f"this machine does not allow namespaces: {result.stderr.strip()}")


def _missing_packages() -> list[str]:
    search = f"{os.environ.get('PATH', '')}:{_SEARCH_PATH}"
    missing = {package for name, package in _PACKAGE_OF.items() if shutil.which(name, path=search) is None}
    if not any((folder / "ptp").exists() for folder in NETWORK_PLUGINS):
        missing.add("containernetworking-plugins")
    return sorted(missing)


def snapshotter(folder: Path) -> str:
    """Choose how containerd stacks image layers: an overlay cannot lie on another overlay."""
    best, kind = "", ""
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, point, filesystem, *_ = line.split()
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, filesystem
    return "native" if kind == "overlay" else "overlayfs"
