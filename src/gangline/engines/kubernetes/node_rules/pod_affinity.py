"""Tells the scheduler what the pods of jobs want of nodes and of one another, as their templates say it.

Called before every scheduling cycle with all jobs that matter to it. Where no template, and no pod of others, wants
anything of the kind, the jobs are handed on as they are.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from gangline.dialects.kubeflow import JOB_ROLE_LABEL, kind_of, selector_labels
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.names import is_foreign
from gangline.engines.kubernetes.node_rules.affinity import PodAffinityRule, PodRule, Surroundings, read_rule
from gangline.engines.kubernetes.node_rules.unmanaged_pods import Repelled, UnmanagedPods
from gangline.kube import Node
from gangline.model import (
    AffinityKind,
    AffinityTerm,
    Job,
    JobId,
    JobSpec,
    NodeRule,
    PlacementRule,
    RoleName,
    RoleSpec,
    Tenant,
)

_RULE_FIELDS = ("ffinity", "topologySpreadConstraints", "nodeSelector", "tolerations")
"""What a template holds that wants something; most hold none of it, and are not read."""


@dataclass(frozen=True)
class _Read:
    """What the templates of one job say; the same object serves until the job's spec is another."""

    job: Job
    rules: Mapping[RoleName, PodRule]
    controller: str

    @cached_property
    def labels(self) -> Mapping[RoleName, Mapping[str, str]]:
        """What the pods of each role go by; asked for only where it matters to somebody."""
        return {role.name: replica_labels(self.job, role, self.controller) for role in self.job.spec.roles}


@dataclass(frozen=True, slots=True)
class _Completed:
    """A job as the scheduler saw it last, and what that was made from."""

    job: Job
    repelled: Repelled
    pod_affinity: tuple[tuple[AffinityTerm, ...], ...]
    result: Job


@dataclass(frozen=True, slots=True)
class TenantNamespaces:
    """Which namespace a tenant's jobs live in: one of its own, after ``prefix``, or ``namespace`` for all."""

    namespace: str | None = None
    prefix: str = ""

    def namespace_of(self, tenant: Tenant) -> str:
        """Where a tenant's jobs live."""
        return self.namespace or f"{self.prefix}{tenant}"

    def tenants_of(self, namespaces: frozenset[str]) -> tuple[Tenant, ...] | None:
        """Whose jobs live in some namespaces; None: everybody's."""
        if self.namespace is not None:
            return None if self.namespace in namespaces else ()
        inside = sorted(each for each in namespaces if each.startswith(self.prefix))
        return tuple(Tenant(each.removeprefix(self.prefix)) for each in inside)


class Cluster(Protocol):
    """What is seen of the cluster: its nodes, and the pods that belong to no job."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        ...

    @property
    def unmanaged_pods(self) -> UnmanagedPods:
        """Pods that belong to no job."""
        ...


class AffinityCompletion:
    """Completes jobs with the affinity rules of their pods, and with what pods of others have to do with them."""

    def __init__(self, view: Cluster, *, controller: str, tenant_namespaces: TenantNamespaces) -> None:
        self._view = view
        self._controller = controller
        self._tenant_namespaces = tenant_namespaces
        self._read: dict[JobId, _Read] = {}
        self._with_rules: dict[JobId, _Completed] = {}

    def complete(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return the same jobs in the same order, with what their pods want in the specs."""
        read = self._read = {job.id: self._reading(job) for job in jobs}
        if not self._view.unmanaged_pods.have_anti_affinity and not any(each.rules for each in read.values()):
            self._with_rules = {}
            return jobs
        repelled = self._view.unmanaged_pods.repelling(self._tenant_namespaces.tenants_of, self._view.nodes)
        self._with_rules = {job.id: self._completed(job, read[job.id], repelled) for job in jobs}
        return [each.result for each in self._with_rules.values()]

    def _reading(self, job: Job) -> _Read:
        known = self._read.get(job.id)
        if known is not None and known.job.spec is job.spec:
            return known
        with_rules = [role for role in job.spec.roles if role.pod_template_json and _has_rules(role.pod_template_json)]
        rules = {role.name: self._rule(job, role) for role in with_rules}
        return _Read(job, {name: rule for name, rule in rules.items() if not rule.empty}, self._controller)

    def _rule(self, job: Job, role: RoleSpec) -> PodRule:
        text, spec = role.pod_template_json or "", job.spec
        labels, namespace = (
            replica_labels(job, role, self._controller),
            self._tenant_namespaces.namespace_of(spec.tenant),
        )
        pod = Surroundings(labels=labels, namespace=namespace, tenants_of=self._tenant_namespaces.tenants_of)
        # The Kubeflow dialect has read what its templates say of nodes; the records of pods of others say it apart.
        plain_job = kind_of(spec) is None and not is_foreign(spec)
        return read_rule(json.loads(text).get("spec") or {}, pod, nodes=plain_job)

    def _completed(self, job: Job, read: _Read, repelled: Repelled) -> _Completed:
        """Hand out the object of the last cycle where nothing has changed, so that the scheduler has nothing to do."""
        known = self._with_rules.get(job.id)
        if known is not None and known.job is job and known.repelled is repelled and not read.rules:
            return known
        pod_affinity = tuple(self._pod_affinity(job, role.name, read, repelled) for role in job.spec.roles)
        if known is not None and known.job.spec is job.spec and known.pod_affinity == pod_affinity:
            result = known.result if known.job is job else replace(job, spec=known.result.spec)
        else:
            roles = map(_with_rules, job.spec.roles, pod_affinity, (read,) * len(pod_affinity))
            result = replace(job, spec=replace(job.spec, roles=tuple(roles), placement=_softened(job.spec, read.rules)))
        return _Completed(job, repelled, pod_affinity, result)

    def _pod_affinity(self, job: Job, role: RoleName, read: _Read, repelled: Repelled) -> tuple[AffinityTerm, ...]:
        """The affinity rules of a role's pods, and those of pods of others that speak of them."""
        unmanaged_pods, nodes = self._view.unmanaged_pods, self._view.nodes
        rule, namespace = read.rules.get(role), self._tenant_namespaces.namespace_of(job.spec.tenant)
        own = [] if rule is None else [unmanaged_pods.completed(each, nodes) for each in rule.pod_affinity]
        theirs = [_kept_away(each, at) for each, at in repelled.items() if each.means(namespace, read.labels[role])]
        return (*own, *theirs)


def _has_rules(template: str) -> bool:
    return any(word in template for word in _RULE_FIELDS)


def _with_rules(role: RoleSpec, pod_affinity: tuple[AffinityTerm, ...], read: _Read) -> RoleSpec:
    rule = read.rules.get(role.name)
    own = replace(rule.nodes if rule is not None else NodeRule(), pod_affinity=pod_affinity)
    placement = own if role.placement is None else role.placement.narrowed(own)
    return replace(role, labels=read.labels[role.name], placement=placement)


def replica_labels(job: Job, role: RoleSpec, controller: str) -> dict[str, str]:
    """The labels that all pods of a role have: the template's, and those that are added to it."""
    template = json.loads(role.pod_template_json) if role.pod_template_json else {}
    given = (template.get("metadata") or {}).get("labels") or {}
    labels = {str(name): str(value) for name, value in given.items()}
    if is_foreign(job.spec):
        return labels
    labels |= {names.CONTROLLER: controller, names.JOB: job.spec.name, names.JOB_ID: job.id, names.ROLE: role.name}
    kind = kind_of(job.spec)
    if kind is not None:
        labels |= selector_labels(job.spec.name, kind, role.name)
        if role.name == job.spec.lead_role and role.most == 1:
            labels[JOB_ROLE_LABEL] = "master"
    return labels


def _kept_away(rule: PodAffinityRule, domains: tuple[str, ...]) -> AffinityTerm:
    """What a pod of others says, from the point of view of those whom it keeps away."""
    return AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level=rule.pod_affinity.level, tenants=(), present=domains)


def _softened(spec: JobSpec, rules: Mapping[RoleName, PodRule]) -> PlacementRule:
    """What pods would rather have is what the gang would rather have, unless the job itself says something."""
    rule = spec.placement
    prefer = next((each.prefer for each in rules.values() if each.prefer is not None), None)
    within = next((each.within for each in rules.values() if each.within is not None), None)
    if rule.prefer is None and prefer is not None:
        rule = replace(rule, prefer=prefer)
    if rule.within is None and within is not None:
        rule = replace(rule, within=within, within_required=False)
    return rule
