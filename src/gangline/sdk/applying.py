"""A job file against what is there: submitted, left alone, relabelled or replaced."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.errors import ConflictError, NotFoundError
from gangline.model import Job, JobSpec
from gangline.sdk.differences import FileFacts, difference_names
from gangline.sdk.values import CODE_PREFIX

if TYPE_CHECKING:
    from gangline.sdk.client import Client


class Outcome(StrEnum):
    """What applying a file did."""

    SUBMITTED = "submitted"
    UNCHANGED = "unchanged"
    LABELLED = "labelled"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A job and what was done so that it is what the file says."""

    job: Job
    outcome: Outcome


def applied(client: "Client", spec: JobSpec, *, halted: bool, replacing: bool) -> Applied:
    """Do for one job what ``Client.apply`` promises."""
    try:
        found = client.get(spec.name)
    except NotFoundError:
        return Applied(job=client.submit(spec, halted=halted), outcome=Outcome.SUBMITTED)
    wanted = replace(client.prepared(spec), source=found.spec.source, tenant=found.spec.tenant)
    if found.spec == wanted and not replacing:
        return Applied(job=found, outcome=Outcome.UNCHANGED)
    if replace(found.spec, labels=wanted.labels) == wanted and not replacing:
        gone = dict.fromkeys(found.spec.labels.keys() - wanted.labels.keys())
        return Applied(job=client.label(found.id, {**wanted.labels, **gone}), outcome=Outcome.LABELLED)
    if not replacing:
        names = ", ".join(difference_names(found.spec, wanted))
        error = ConflictError(f"job '{spec.name}' is there already and differs in {names}")
        error.add_note("--replace deletes it and submits this one; 'gangline diff -f FILE' shows the differences")
        raise error
    client.delete(found.id)
    return Applied(job=client.submit(spec, halted=halted), outcome=Outcome.REPLACED)


def facts_of_spec(client: "Client", spec: JobSpec) -> FileFacts:
    """Return what a file that was not submitted says, with the digests of its code. Nothing is sent."""
    from gangline.sdk.code.packing import digests_of_files, pack

    if spec.code is None or spec.code.startswith(CODE_PREFIX):
        return FileFacts(spec=client.as_sent(spec))
    with pack(Path(spec.code), limits=client.code_limits) as archive:
        code = digests_of_files(iter([archive.file.read()]))
        return FileFacts(spec=client.as_sent(spec), code=code)
