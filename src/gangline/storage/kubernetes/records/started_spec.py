"""The spec of a job that has begun, whatever its author has made of the object since. Pure.

``kubectl edit`` may take out a role whose replicas run, or write something that is not a job. What runs must still be
stopped by its name, and one object must never be in the way of others; so a begun job always has a spec.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangline.model import Job, JobSpec, RoleName, RoleSpec

_REMOVED_COMMAND = ("gone",)
"""The command of a role that its author took out; it is never run."""


def with_roles_of(job: Job, spec: JobSpec) -> JobSpec:
    """The spec with every role that runs: what an author took out of it still has to be stopped by its name."""
    known = {role.name for role in spec.roles}
    gone = {status.id.role for status in job.replicas} - known if job.holding else ()
    if not gone:
        return spec
    removed = tuple(RoleSpec(name=name, command=_REMOVED_COMMAND) for name in sorted(gone))
    return replace(spec, roles=(*spec.roles, *removed))


def without_removed_roles(job: Job) -> Job:
    """The job as its next attempt should be: once all is stopped, roles that were taken out are no part of it."""
    if job.holding or all(role.command != _REMOVED_COMMAND for role in job.spec.roles):
        return job
    return replace(
        job, spec=replace(job.spec, roles=tuple(role for role in job.spec.roles if role.command != _REMOVED_COMMAND))
    )


def roles_in(state: Mapping[str, Any]) -> tuple[RoleSpec, ...]:
    """Stand in for the roles of a spec that cannot be read: enough to stop and to finish what a record says runs."""
    names = dict.fromkeys(RoleName(replica["id"]["role"]) for replica in state.get("replicas") or ())
    return tuple(RoleSpec(name=name, command=("unreadable",)) for name in names or [RoleName("worker")])
