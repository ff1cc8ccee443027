"""The environment of a replica on this machine: little is inherited, the framework's part is added, the user's wins."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from gangline.dialects.frameworks import replica_environment
from gangline.engines.local.keeper.launch import MARKER
from gangline.engines.local.layout import Layout
from gangline.model import Gang, GangReplica, ReplicaId

INHERITED = frozenset(
    {
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "USER",
        "LOGNAME",
        "SHELL",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PYTHONPATH",
        "CUDA_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    }
)
"""What replicas see of the environment the service was started in, besides LC_*. Secrets are not among it."""

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def job_directories(layout: Layout, gang: Gang) -> dict[str, str]:
    """Return the directories a job's replicas share, and its name, by the variables that carry them."""
    home = layout.job(gang.id.job_id)
    return {
        "JOB_NAME": gang.spec.name,
        "DATA_DIR": str(home / "data"),
        "RESULT_DIR": str(home / "results"),
        "CHECKPOINT_DIR": str(home / "checkpoints"),
    }


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$NAME`` and ``${NAME}`` of known variables; anything else stays as it is written."""
    return _REFERENCE.sub(lambda match: variables.get(match[1] or match[2], match[0]), text)


def environment_of(
    layout: Layout,
    gang: Gang,
    replica: GangReplica,
    *,
    token: str,
    inherited: Mapping[str, str],
    addresses: Mapping[ReplicaId, tuple[str, int]],
    gpus: tuple[str, ...],
) -> dict[str, str]:
    """Return the whole environment of one replica."""
    attempt = layout.attempt(gang.id)
    scratch = attempt / "scratch" / str(replica.id)
    environment = {name: value for name, value in inherited.items() if name in INHERITED or name.startswith("LC_")}
    environment["PATH"] = _with_own_interpreter(environment.get("PATH") or "/usr/local/bin:/usr/bin:/bin")
    environment |= job_directories(layout, gang)
    environment |= {
        "HOME": str(scratch),
        "TMPDIR": str(scratch / "tmp"),
        "GANGLINE_JOB_ID": gang.id.job_id,
        "GANGLINE_ATTEMPT": str(gang.id.attempt),
        "GANGLINE_INCARNATION": str(replica.incarnation),
        "GANGLINE_GRACE_SECONDS": f"{gang.spec.policy.grace_seconds:g}",
        "GANGLINE_METRICS": str(layout.metrics(gang.id, str(replica.id))),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }
    environment |= replica_environment(
        gang.spec,
        replica.id,
        addresses=addresses,
        hostfile_path=str(attempt / "hostfile"),
        remote_shell=str(attempt / "remote-shell"),
    )
    # Last, because it is how the replica's processes are found again: a user may not take it away by accident.
    return environment | {MARKER: f"{token}:{replica.id}"}


def _with_own_interpreter(path: str) -> str:
    """A command ``python`` finds the interpreter that runs Gangline where the path has no other."""
    own = str(Path(sys.executable).parent)
    return path if own in path.split(":") else f"{path}:{own}"
