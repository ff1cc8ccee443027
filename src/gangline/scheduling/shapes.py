"""What a gang asks for, reduced to what placement needs: a few shapes and how many replicas of each.

Two replicas of the same shape are interchangeable, so feasibility is worked out once per shape and never per
replica. Called by the snapshot; knows nothing of nodes.
"""

from dataclasses import dataclass

from gangline.model import Job, JobSpec, NodeTerm, Prefer, RoleName, RoleSpec, Toleration

GPU_MILLIS = 1000
"""One whole GPU."""


Labels = tuple[tuple[str, str], ...]
"""Labels in the order of their names."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Identical replicas: what each needs and which nodes it may use.

    A request of 1000 ``gpu_millis`` or a multiple takes whole GPUs; the rest, if any, is a part of one GPU.
    """

    amounts: tuple[tuple[str, int], ...]
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    gpu_types: tuple[str, ...] = ()
    affinity: tuple[NodeTerm, ...] = ()

    def amount(self, name: str) -> int:
        """How much of one resource each replica needs."""
        return next((amount for each, amount in self.amounts if each == name), 0)

    @property
    def gpu_millis(self) -> int:
        """GPU demand in thousandths."""
        return self.amount("gpu_millis")

    @property
    def whole_gpus(self) -> int:
        """GPUs that each replica has to itself."""
        return self.gpu_millis // GPU_MILLIS

    @property
    def gpu_part(self) -> int:
        """Thousandths of one further GPU that each replica shares with others."""
        return self.gpu_millis % GPU_MILLIS


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """One role of a gang: it cannot run with fewer than ``least`` and should have ``wanted``."""

    role: RoleName
    shape: Shape
    least: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Demand:
    """A whole gang: its roles, and how they lie relative to one another."""

    roles: tuple[RoleDemand, ...]
    prefer: Prefer | None = None
    within: str | None = None
    within_required: bool = True
    apart: str | None = None
    near: Labels = ()
    away: Labels = ()

    @property
    def packed(self) -> bool:
        """Whether replicas should share as few nodes as possible: unless the user asked to spread."""
        return self.prefer is not Prefer.SPREAD

    @property
    def elastic(self) -> bool:
        """Whether some role may have more replicas than it must."""
        return any(role.wanted > role.least for role in self.roles)

    @property
    def plain(self) -> bool:
        """Whether it is one role that may go anywhere: most gangs, and the quickest to place."""
        free = self.within is None and self.apart is None
        return free and len(self.roles) == 1 and len(self.roles[0].shape.gpu_types) <= 1

    def total(self, *, wanted: bool = False) -> dict[str, int]:
        """Everything the gang needs to live (or, ``wanted``, to be complete), by resource."""
        sums: dict[str, int] = {}
        for role in self.roles:
            count = role.wanted if wanted else role.least
            for name, amount in role.shape.amounts:
                sums[name] = sums.get(name, 0) + amount * count
        return sums


def demand_of(job: Job) -> Demand:
    """Reduce a job to what placement needs."""
    rule = job.spec.placement
    scale = dict(job.scale)
    return Demand(
        roles=tuple(
            RoleDemand(
                role=role.name,
                shape=shape_of(job.spec, role),
                least=role.least,
                wanted=min(max(scale.get(role.name, role.replicas), role.least), role.most),
            )
            for role in job.spec.roles
        ),
        prefer=rule.prefer,
        within=rule.within,
        within_required=rule.within_required,
        apart=rule.apart,
        near=tuple(sorted(rule.near.items())),
        away=tuple(sorted(rule.away.items())),
    )


def shape_of(spec: JobSpec, role: RoleSpec) -> Shape:
    """What each replica of a role needs, and where it may run. A GPU type binds only roles that use a GPU."""
    rule = spec.nodes_of(role)
    resources = role.resources
    return Shape(
        amounts=tuple(sorted((name, amount) for name, amount in resources.amounts().items() if amount)),
        selector=tuple(sorted(rule.node_selector.items())),
        tolerations=rule.tolerations,
        gpu_types=rule.gpu_types if resources.gpu_millis else (),
        affinity=rule.node_affinity,
    )
