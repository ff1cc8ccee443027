"""What a gang asks for, reduced to what placement needs: a few shapes and how many replicas of each.

Two replicas of the same shape are interchangeable, so feasibility is worked out once per shape and never per
replica. Called by the snapshot; knows nothing of nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gangline.model import (
    AffinityKind,
    AffinityTerm,
    Job,
    NodePreference,
    NodeRequirement,
    NodeRule,
    NodeTerm,
    PlacementRule,
    Prefer,
    ReplicaId,
    RoleName,
    RoleSpec,
    Toleration,
    TopologySpread,
)
from gangline.model.resources import GPU_MEMORY
from gangline.scheduling.demand.gang_affinity import (
    Colocation,
    Separation,
    colocations_of,
    group_names,
    role_name,
    separations_of,
)

GPU_MILLIS = 1000
"""One whole GPU."""


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
    preferences: tuple[NodePreference, ...] = ()
    barred: tuple[str, ...] = ()

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

    @property
    def shares_by_memory(self) -> bool:
        """Whether each replica has a part of a GPU that its memory decides."""
        return not self.gpu_millis and self.amount(GPU_MEMORY) > 0


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """One role of a gang, or one group of a role: it cannot run with fewer than ``least``, should have ``wanted`` and
    can use ``extra`` more. The indexes of its replicas begin with ``first``.

    ``pod_affinity`` says whom its replicas want, or do not bear, beside them; ``topology_spread`` over what they are to
    lie evenly.
    """

    role: RoleName
    shape: Shape
    least: int
    wanted: int
    pod_affinity: tuple[AffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpread, ...] = ()
    extra: int = 0
    first: int = 0

    @property
    def name(self) -> RoleName:
        """The role that it is, or is a group of."""
        return role_name(self.role)

    @property
    def most(self) -> int:
        """The most replicas that it can use."""
        return self.wanted + self.extra


@dataclass(frozen=True, slots=True)
class Demand:
    """A whole gang: its roles, and how they lie relative to one another."""

    roles: tuple[RoleDemand, ...]
    prefer: Prefer | None = None
    apart: tuple[Separation, ...] = ()
    together: tuple[Colocation, ...] = ()
    """What lies in one domain: the whole gang first, level by level from the outermost on."""

    def role(self, name: RoleName) -> RoleDemand:
        """The demand of one role."""
        return next(role for role in self.roles if role.role == name)

    def group_of(self, replica: ReplicaId) -> RoleName:
        """What placement calls the group of a replica: its role, unless that has several."""
        if len(self.roles) == 1:
            return self.roles[0].role
        name, index = replica.role, replica.index
        found = (role for role in reversed(self.roles) if role.first <= index and name in (role.role, role.name))
        return next(found).role

    def packs(self, shape: Shape) -> bool:
        """Whether replicas should share as few nodes as possible: unless the user asked to spread.

        Those that ask for nothing leave no room behind by sharing a node, and what they use there nobody knows: unless
        the user asked to pack, they are spread.
        """
        return self.prefer is Prefer.PACK or (self.prefer is None and bool(shape.amounts))

    @property
    def elastic(self) -> bool:
        """Whether some role may have more replicas than it must."""
        return any(role.most > role.least for role in self.roles)

    @property
    def plain(self) -> bool:
        """Whether it is one role that may go anywhere: most gangs, and the quickest to place."""
        if len(self.roles) > 1 or self.apart or self.together:
            return False
        return len(self.roles[0].shape.gpu_types) <= 1 and not self.roles[0].topology_spread

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of which the whole gang must lie in one domain, the outermost first."""
        return tuple(each.level for each in self.together if each.required and len(each.roles) == len(self.roles))

    @property
    def has_affinity(self) -> bool:
        """Whether it matters to the gang who else is on a node, or in a node's domain."""
        return any(role.pod_affinity for role in self.roles)

    def gpu_types(self) -> tuple[str, ...]:
        """Types of which all GPUs of the gang may be, in the order of preference; empty if it names none."""
        named = [role.shape.gpu_types for role in self.roles if role.shape.gpu_millis]
        return tuple(name for name in named[0] if all(name in types for types in named)) if named else ()

    def total(self, *, wanted: bool = False) -> dict[str, int]:
        """Everything the gang needs to live (or, ``wanted``, to be complete), by resource."""
        sums: dict[str, int] = {}
        for role in self.roles:
            count = role.wanted if wanted else role.least
            for name, amount in role.shape.amounts:
                # Beside whole GPUs it is a condition on these, and not an amount.
                if name != GPU_MEMORY or role.shape.shares_by_memory:
                    sums[name] = sums.get(name, 0) + amount * count
        return sums


def demand_of(job: Job) -> Demand:
    """Reduce a job to what placement needs."""
    spec, rule = job.spec, job.spec.placement
    scale = dict(job.scale)
    nodes = [spec.nodes_of(role) for role in spec.roles]
    bound = any(each.pod_affinity for each in nodes)
    return Demand(
        roles=tuple(
            each
            for role, own in zip(spec.roles, nodes, strict=True)
            for each in _groups(_role_demand(rule, role, own, scale.get(role.name)), role)
        ),
        prefer=rule.prefer,
        apart=separations_of(spec) if bound or rule.apart else (),
        together=colocations_of(spec) if bound or rule.within or any(role.within for role in spec.roles) else (),
    )


def _groups(whole: RoleDemand, role: RoleSpec) -> Iterator[RoleDemand]:
    """The groups of a role, equally large; where its user has asked for fewer replicas, the last ones lack some."""
    if role.groups == 1:
        yield whole
        return
    size, least = role.replicas // role.groups, role.least // role.groups
    more, rest = divmod(whole.wanted, role.groups)
    for number, name in enumerate(group_names(role)):
        yield replace(whole, role=name, least=least, wanted=more + (number < rest), first=number * size)


def _role_demand(rule: PlacementRule, role: RoleSpec, own: NodeRule, asked: int | None) -> RoleDemand:
    wanted = min(max(role.replicas if asked is None else asked, role.least), role.most)
    return RoleDemand(
        role=role.name,
        shape=_shape_of(role, own),
        least=role.least,
        wanted=wanted,
        # Whoever has asked for a number wants just that.
        extra=role.most - wanted if asked is None else 0,
        pod_affinity=(*_pod_affinity_of(rule), *own.pod_affinity) if rule.near or rule.away else own.pod_affinity,
        topology_spread=own.topology_spread,
    )


def _pod_affinity_of(rule: PlacementRule) -> tuple[AffinityTerm, ...]:
    """The jobs that a job wants beside it or not: what its own file says."""
    rules = ((AffinityKind.AFFINITY, rule.near), (AffinityKind.ANTI_AFFINITY, rule.away))
    return tuple(
        AffinityTerm(
            kind=kind,
            level="node",
            labels=tuple(NodeRequirement(key=key, values=(value,)) for key, value in sorted(labels.items())),
            of_jobs=True,
        )
        for kind, labels in rules
        if labels
    )


def _shape_of(role: RoleSpec, rule: NodeRule) -> Shape:
    """What each replica of a role needs, and where it may run. A GPU type binds only roles that use a GPU."""
    resources = role.resources
    return Shape(
        amounts=tuple(sorted((name, amount) for name, amount in resources.amounts().items() if amount)),
        selector=tuple(sorted(rule.node_selector.items())),
        tolerations=rule.tolerations,
        gpu_types=rule.gpu_types if resources.gpu_millis or resources.gpu_memory_mib else (),
        affinity=rule.node_affinity,
        preferences=rule.preferences,
        barred=rule.barred,
    )
