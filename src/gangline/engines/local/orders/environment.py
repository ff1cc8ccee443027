"""The environment of a replica on this machine: little is inherited, the framework's part is added, the user's wins."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gangline.dialects.frameworks import Team, team_environment
from gangline.engines.local.keeper.launch import MARKER
from gangline.engines.local.keeper.replica import RESULT_VARIABLE
from gangline.engines.local.layout import Layout
from gangline.model import Framework, Gang, GangReplica, ReplicaId

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

_UNBOUND_RANKS = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
"""Every host of an MPI job is this machine: each daemon would take it for its own and bind ranks to the first core."""
_OWN_HOST = "127.0.0.1"
"""What every program takes for its own address; the loopback address that others are told leads there too."""
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def inherited_part(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what replicas see of an environment."""
    return {name: value for name, value in environment.items() if name in INHERITED or name.startswith("LC_")}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEnvironment:
    """The environments of one gang's replicas. What they have in common is worked out once, not for each of many."""

    layout: Layout
    gang: Gang
    team: Team
    token: str
    shared: Mapping[str, str]

    @classmethod
    def of(
        cls,
        layout: Layout,
        gang: Gang,
        *,
        token: str,
        inherited: Mapping[str, str],
        addresses: Mapping[ReplicaId, tuple[str, int]],
        besides: Mapping[str, str],
    ) -> "GangEnvironment":
        """Take over what replicas may see of the service's own environment, and add what all of the gang share."""
        kept = inherited_part(inherited)
        shared = {
            **kept,
            "PATH": _with_own_interpreter(kept.get("PATH") or "/usr/local/bin:/usr/bin:/bin"),
            **job_directories(layout, gang),
            "GANGLINE_JOB_ID": gang.id.job_id,
            "GANGLINE_ATTEMPT": str(gang.id.attempt),
            **({"GANGLINE_RESUME_FROM": str(gang.resume_from)} if gang.resume_from else {}),
            "GANGLINE_GRACE_SECONDS": f"{gang.spec.policy.grace_seconds:g}",
            "GANGLINE_PYTHON": sys.executable,
            "GANGLINE_ENVIRONMENTS": str(layout.environments(gang.spec.tenant)),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            **besides,
            **(_UNBOUND_RANKS if gang.spec.framework is Framework.MPI else {}),
        }
        team = Team.of(gang.spec, addresses, own_host=_OWN_HOST)
        return cls(layout=layout, gang=gang, team=team, token=token, shared=shared)

    def of_replica(self, replica: GangReplica, *, gpus: tuple[str, ...]) -> dict[str, str]:
        """Return the whole environment of one replica."""
        attempt = self.layout.attempt(self.gang.id)
        scratch = f"{attempt}/scratch/{replica.id}"
        own = {
            "HOME": scratch,
            "TMPDIR": f"{self.layout.short_scratch(self.gang.id)}/{replica.id}/tmp",
            "GANGLINE_INCARNATION": str(replica.incarnation),
            RESULT_VARIABLE: f"{scratch}/.result",
            "GANGLINE_METRICS": str(self.layout.metrics(self.gang.id, str(replica.id))),
            "GANGLINE_STACKS": str(self.layout.stacks(self.gang.id, str(replica.id))),
            "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        }
        framework = team_environment(
            self.team,
            replica.id,
            hostfile_path=f"{attempt}/hostfile",
            remote_shell=f"{attempt}/remote-shell",
            secret_path=f"{attempt}/secret",
        )
        # Last, because it is how the replica's processes are found again: a user may not take it away by accident.
        return {**self.shared, **own, **framework, MARKER: f"{self.token}:{replica.id}"}


def _with_own_interpreter(path: str) -> str:
    """A command ``python`` finds the interpreter that runs Gangline where the path has no other."""
    own = str(Path(sys.executable).parent)
    return path if own in path.split(":") else f"{path}:{own}"
