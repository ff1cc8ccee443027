"""Who is in the gang and in which order: the one view of it that every framework's variables are derived from."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from gangline.model import JobSpec, ReplicaId, RoleName
from gangline.model.jobs.spec import SERVICE_ROLES

Address = tuple[str, int]
"""Host and port."""

_LISTED_ONE_BY_ONE = 32
"""Up to this many replicas a role's addresses are written out; five hundred pods with five hundred addresses each would
be twelve megabytes for the server of a cluster to take."""
_NUMBERED_NAME = re.compile(r"([^.:]*-)(0|[1-9]\d*)([.:].+)")
_LAUNCHER = RoleName("launcher")
_WORKER = RoleName("worker")


@dataclass(frozen=True, kw_only=True)
class Team:
    """The present replicas of a job with their addresses, in rank order. Made once for all replicas of a gang.

    The lead role comes first, then worker, then the other roles as the job lists them, service roles last: so
    ranks below the number of training replicas are exactly the training replicas.
    """

    spec: JobSpec
    addresses: Mapping[ReplicaId, Address]
    ranked: tuple[ReplicaId, ...]
    own_host: str | None = None
    """How a replica writes its own IP address, where its engine knows a way; see ``meeting_point``."""

    @classmethod
    def of(cls, spec: JobSpec, addresses: Mapping[ReplicaId, Address], *, own_host: str | None = None) -> "Team":
        """Put the replicas that have an address in rank order."""
        order = {name: position for position, name in enumerate(_role_order(spec))}
        ranked = tuple(sorted(addresses, key=lambda replica: (order[replica.role], replica.index)))
        return cls(spec=spec, addresses=addresses, ranked=ranked, own_host=own_host)

    @cached_property
    def ranks(self) -> Mapping[ReplicaId, int]:
        """The place of every replica in the order."""
        return {replica: rank for rank, replica in enumerate(self.ranked)}

    @cached_property
    def training(self) -> tuple[ReplicaId, ...]:
        """The replicas that train, as opposed to those that serve them."""
        return tuple(replica for replica in self.ranked if replica.role not in SERVICE_ROLES)

    @property
    def hosts(self) -> tuple[ReplicaId, ...]:
        """The replicas a launcher may start processes on: all that train but the launcher, or else the launcher."""
        return tuple(replica for replica in self.training if replica.role != _LAUNCHER) or self.training

    @property
    def lead(self) -> ReplicaId:
        """The replica everybody meets at."""
        return self.ranked[0]

    @property
    def nodes(self) -> str:
        """How many training replicas there are, or may be: ``4``, or ``2:8`` when the job is elastic."""
        roles = [role for role in self.spec.roles if role.name not in SERVICE_ROLES]
        if not any(role.elastic for role in roles):
            return str(len(self.training))
        return f"{max(1, sum(role.least for role in roles))}:{sum(role.most for role in roles)}"

    @property
    def elastic(self) -> bool:
        """Whether the number of training replicas may change while the job runs."""
        return ":" in self.nodes

    def of_role(self, role: RoleName) -> tuple[ReplicaId, ...]:
        """The present replicas of one role, by index."""
        return tuple(replica for replica in self.ranked if replica.role == role)

    def endpoint(self, replica: ReplicaId) -> str:
        """The address of a replica as ``host:port``."""
        host, port = self.addresses[replica]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def meeting_point(self, replica: ReplicaId) -> str:
        """Where a replica is to meet the others; the lead itself is told its own IP address instead of its name.

        PaddlePaddle's launcher serves there only if the address is literally its own, and waits forever if not.
        """
        if replica == self.lead and self.own_host is not None:
            return f"{self.own_host}:{self.addresses[self.lead][1]}"
        return self.endpoint(self.lead)

    @cached_property
    def cluster_text(self) -> str:
        """What ``cluster`` returns, as JSON; the many names of a large role in ranges: ``worker-[0-499].job:2222``.

        ``gangline.runtime`` reads both forms.
        """
        return json.dumps(
            {
                role: endpoints if len(endpoints) <= _LISTED_ONE_BY_ONE else in_ranges(endpoints)
                for role, endpoints in self.cluster().items()
            }
        )

    def cluster(self) -> dict[str, list[str]]:
        """Every role's addresses, by index."""
        by_role: dict[str, list[str]] = {role.name: [] for role in self.spec.roles}
        for replica in self.ranked:
            by_role[replica.role].append(self.endpoint(replica))
        return {name: endpoints for name, endpoints in by_role.items() if endpoints}

    def user_setting(self, variable: str) -> str | None:
        """What the user's own environment says, for the few settings that other variables depend on."""
        return self.spec.env.get(variable)


def in_ranges(endpoints: Iterable[str]) -> list[str]:
    """Join neighbours whose names differ by their number alone, and by one; what is no such name stays as it is."""
    runs: list[tuple[str, int, int, str]] = []
    for endpoint in endpoints:
        name = _NUMBERED_NAME.fullmatch(endpoint)
        before, number, after = (name[1], int(name[2]), name[3]) if name else (endpoint, -1, "")
        if name and runs and runs[-1] == (before, runs[-1][1], number - 1, after):
            runs[-1] = (before, runs[-1][1], number, after)
        else:
            runs.append((before, number, number, after))
    return [_run_text(*run) for run in runs]


def _run_text(before: str, first: int, last: int, after: str) -> str:
    if first == last:
        return f"{before}{first}{after}" if after else before
    return f"{before}[{first}-{last}]{after}"


def _role_order(spec: JobSpec) -> list[RoleName]:
    names = [role.name for role in spec.roles]
    first = [name for name in dict.fromkeys((spec.lead_role, _WORKER)) if name in names]
    rest = [name for name in names if name not in first]
    ordered = [*first, *(name for name in rest if name not in SERVICE_ROLES)]
    return [*ordered, *(name for name in rest if name in SERVICE_ROLES)]
