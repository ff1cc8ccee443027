"""What two jobs differ in: their files, code, inputs, packages, and how they ended. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gangline.dialects.native import job_to_plain
from gangline.model import Job, JobSpec, Metric

_APART = (("metadata", "name"), ("spec", "source"), ("spec", "code"))
"""Fields of the file that differ for other reasons, or are compared by what they stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not the same; empty where one of the two does not have it."""

    part: str
    name: str
    first: str = ""
    second: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """A job with what its record only names."""

    job: Job
    code: Mapping[str, str] = field(default_factory=dict)
    """The digest of every file of its code."""
    packages: Sequence[str] = ()
    metrics: Sequence[Metric] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A job file that was not submitted."""

    spec: JobSpec
    code: Mapping[str, str] = field(default_factory=dict)
    """The digest of every file of its code."""


def differences(first: JobFacts, second: JobFacts) -> tuple[Difference, ...]:
    """Return all that differs, part by part."""
    return (
        *_compared("file", _file(first.job.spec), _file(second.job.spec)),
        *_compared("code", _code(first.job.spec, first.code), _code(second.job.spec, second.code)),
        *_compared("inputs", _inputs(first.job), _inputs(second.job)),
        *_compared("packages", _packages(first.packages), _packages(second.packages)),
        *_compared("end", _end(first.job), _end(second.job)),
        *_compared("metrics", _metrics(first), _metrics(second)),
    )


def differences_of_files(first: JobFacts, second: FileFacts) -> tuple[Difference, ...]:
    """Return what a job and a file that was not submitted differ in: all but how the job went."""
    packed = _code(replace(first.job.spec, source=None), first.code)
    return (
        *_compared("file", _file(first.job.spec), _file(second.spec)),
        *_compared("code", packed, _code(replace(second.spec, source=None), second.code)),
    )


def difference_names(first: JobSpec, second: JobSpec) -> tuple[str, ...]:
    """Return the fields of the file in which two jobs differ, the code as one."""
    found = [each.name for each in _compared("file", _file(first), _file(second))]
    return (*found, *(["code"] if first.code != second.code else []))


def _compared(part: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*first, *second}):
        one, other = first.get(name, ""), second.get(name, "")
        if one != other:
            yield Difference(part=part, name=name, first=one, second=other)


def _file(spec: JobSpec) -> dict[str, str]:
    plain: Any = job_to_plain(spec)
    for part, name in _APART:
        plain[part].pop(name, None)
    return dict(_leaves({"metadata": plain["metadata"], **plain["spec"]}))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        entries: Any = value.items()
    elif isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        entries = enumerate(value)
    else:
        yield path, " ".join(map(str, value)) if isinstance(value, list) else str(value)
        return
    for name, inner in entries:
        yield from _leaves(inner, f"{path}.{name}" if path else str(name))


def _code(spec: JobSpec, code: Mapping[str, str]) -> dict[str, str]:
    source = spec.source
    noted = {"commit": source.described_commit} if source and source.commit else {}
    # The files tell more than the digest of them all.
    files = {name: digest[:12] for name, digest in code.items()}
    return {**noted, **(files or ({"digest": spec.code[:19]} if spec.code else {}))}


def _inputs(job: Job) -> dict[str, str]:
    return {each.address: each.digest[:19] for each in job.inputs}


def _packages(packages: Sequence[str]) -> dict[str, str]:
    return {name: version for name, _, version in (package.partition("==") for package in packages)}


def _end(job: Job) -> dict[str, str]:
    code = {} if job.exit_code is None else {"exit code": str(job.exit_code)}
    return {"phase": str(job.phase), **code}


def _metrics(facts: JobFacts) -> dict[str, str]:
    lead = facts.job.spec.lead_role
    own = [each for each in facts.metrics if each.replica.role == lead and each.replica.index == 0]
    return {each.name: f"{each.value:.6g}" for each in own or facts.metrics}
