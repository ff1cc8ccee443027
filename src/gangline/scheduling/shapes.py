"""What a gang asks for, reduced to what placement needs: a few shapes and how many replicas of each.

Two replicas of the same shape are interchangeable, so feasibility is worked out once per shape and never per
replica. Called by the snapshot; knows nothing of nodes.
"""

from dataclasses import dataclass

from gangline.model import (
    Bond,
    Company,
    Evenness,
    Job,
    NodePreference,
    NodeRequirement,
    NodeRule,
    NodeTerm,
    PlacementRule,
    Prefer,
    RoleName,
    RoleSpec,
    Toleration,
)
from gangline.scheduling.bonds import Apart, Together, aparts_of, togethers_of

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


@dataclass(frozen=True, slots=True)
class RoleDemand:
    """One role of a gang: it cannot run with fewer than ``least`` and should have ``wanted``.

    ``company`` says whom its replicas want, or do not bear, beside them; ``even`` over what they are to lie evenly.
    """

    role: RoleName
    shape: Shape
    least: int
    wanted: int
    company: tuple[Company, ...] = ()
    even: tuple[Evenness, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """A whole gang: its roles, and how they lie relative to one another."""

    roles: tuple[RoleDemand, ...]
    prefer: Prefer | None = None
    within: str | None = None
    within_required: bool = True
    apart: tuple[Apart, ...] = ()
    together: tuple[Together, ...] = ()

    def packs(self, shape: Shape) -> bool:
        """Whether replicas should share as few nodes as possible: unless the user asked to spread.

        Those that ask for nothing leave no room behind by sharing a node, and what they use there nobody knows: unless
        the user asked to pack, they are spread.
        """
        return self.prefer is Prefer.PACK or (self.prefer is None and bool(shape.amounts))

    @property
    def elastic(self) -> bool:
        """Whether some role may have more replicas than it must."""
        return any(role.wanted > role.least for role in self.roles)

    @property
    def plain(self) -> bool:
        """Whether it is one role that may go anywhere: most gangs, and the quickest to place."""
        if len(self.roles) > 1 or self.within is not None or self.apart or self.together:
            return False
        return len(self.roles[0].shape.gpu_types) <= 1 and not self.roles[0].even

    @property
    def choosy(self) -> bool:
        """Whether it matters to the gang who else is on a node, or in a node's domain."""
        return any(role.company for role in self.roles)

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
    spec, rule = job.spec, job.spec.placement
    scale = dict(job.scale)
    nodes = [spec.nodes_of(role) for role in spec.roles]
    bound = any(each.company for each in nodes)
    return Demand(
        roles=tuple(
            _role_demand(rule, role, own, scale.get(role.name, role.replicas))
            for role, own in zip(spec.roles, nodes, strict=True)
        ),
        prefer=rule.prefer,
        within=rule.within,
        within_required=rule.within_required,
        apart=aparts_of(spec) if bound or rule.apart else (),
        together=togethers_of(spec) if bound else (),
    )


def _role_demand(rule: PlacementRule, role: RoleSpec, own: NodeRule, asked: int) -> RoleDemand:
    return RoleDemand(
        role=role.name,
        shape=_shape_of(role, own),
        least=role.least,
        wanted=min(max(asked, role.least), role.most),
        company=(*_company_of(rule), *own.company) if rule.near or rule.away else own.company,
        even=own.even,
    )


def _company_of(rule: PlacementRule) -> tuple[Company, ...]:
    """The jobs that a job wants beside it or not: what its own file says."""
    wishes = ((Bond.ATTRACTS, rule.near), (Bond.REPELS, rule.away))
    return tuple(
        Company(
            bond=bond,
            level="node",
            labels=tuple(NodeRequirement(key=key, values=(value,)) for key, value in sorted(labels.items())),
            of_jobs=True,
        )
        for bond, labels in wishes
        if labels
    )


def _shape_of(role: RoleSpec, rule: NodeRule) -> Shape:
    """What each replica of a role needs, and where it may run. A GPU type binds only roles that use a GPU."""
    resources = role.resources
    return Shape(
        amounts=tuple(sorted((name, amount) for name, amount in resources.amounts().items() if amount)),
        selector=tuple(sorted(rule.node_selector.items())),
        tolerations=rule.tolerations,
        gpu_types=rule.gpu_types if resources.gpu_millis else (),
        affinity=rule.node_affinity,
        preferences=rule.preferences,
        barred=rule.barred,
    )
