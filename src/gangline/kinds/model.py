"""The kind Model: what training leaves, in versions that never change."""

from collections.abc import Iterable

from gangline.errors import ConflictError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Reader
from gangline.kinds.registry import kind_named
from gangline.model import Job
from gangline.model.kinds.registered_model import (
    Model,
    ModelReference,
    ModelSpec,
    ModelStatus,
    ModelVersion,
    model_reference,
)


def readers_of(model: Model, jobs: Iterable[Job]) -> dict[str, ModelReference]:
    """Return the jobs of the tenant that read the model, and what they call it."""
    named = (
        (job.spec.name, model_reference(move.source))
        for job in jobs
        if job.spec.tenant == model.tenant
        for move in job.spec.inputs
    )
    return {job: reference for job, reference in named if reference is not None and reference.name == model.name}


async def check_model(before: Model | None, after: Model | None, reader: Reader) -> None:
    """Refuse to delete a model that is in use: by an alias, a job that reads it, or a service."""
    if before is None or after is not None:
        return
    if aliases := sorted(before.status.aliases):
        raise ConflictError(
            f"model '{before.name}' is in use: it has the alias @{aliases[0]}; "
            f"first run: gangline model promote {before.name} --remove {aliases[0]}"
        )
    if jobs := sorted(readers_of(before, await reader.jobs())):
        raise ConflictError(f"model '{before.name}' is in use: job '{jobs[0]}' reads it")
    for service in await reader.records(kind_named("service")):  # by name: services know models, not the reverse
        reference = model_reference(service.spec.model)
        if reference is not None and reference.name == before.name and service.tenant == before.tenant:
            raise ConflictError(f"model '{before.name}' is in use: service '{service.name}' serves it")


def _newest(model: Model) -> ModelVersion | None:
    return model.status.versions[-1] if model.status.versions else None


def _aliases(model: Model) -> str | None:
    return ", ".join(f"@{name}={number}" for name, number in sorted(model.status.aliases.items())) or None


MODEL: Kind[ModelSpec, ModelStatus, Model] = Kind(
    name="model",
    plural="models",
    summary="Register, promote and download models.",
    description="What training leaves, in versions that never change.",
    spec=ModelSpec,
    status=ModelStatus,
    format=derived_format(ModelSpec, "Model", "What the model is for."),
    answer=Model,
    editable=True,
    columns=(
        Column("VERSIONS", lambda model: len(model.status.versions)),
        Column("NEWEST", lambda model: newest.number if (newest := _newest(model)) else None),
        Column("JOB", lambda model: newest.job or None if (newest := _newest(model)) else None),
        Column("ALIASES", _aliases),
        Column("DESCRIPTION", lambda model: model.spec.description or None, last=True),
    ),
    check=check_model,
)
