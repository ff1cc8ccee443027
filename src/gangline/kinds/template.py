"""What runs of pipelines are made from and grouped by: templates with their versions, and experiments."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from gangline.dialects.value import Value
from gangline.errors import ConflictError, NotFoundError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Plain, Reader, Verb
from gangline.kinds.pipeline import graph_of
from gangline.model import Resources
from gangline.model.kinds.template import (
    RunExperiment,
    RunExperimentSpec,
    RunExperimentStatus,
    Template,
    TemplateSpec,
    TemplateVersion,
    TemplateVersionSpec,
)
from gangline.model.record import NoStatus


async def _check_template(before: Template | None, after: Template | None, reader: Reader) -> None:
    """Refuse to delete a template that has versions."""
    if before is None or after is not None:
        return
    versions = [each for each in await reader.records(TEMPLATE_VERSION) if each.tenant == before.tenant]
    if names := [each.name for each in versions if each.spec.template == before.name]:
        raise ConflictError(f"template '{before.name}' has versions: {', '.join(names[:5])}; delete those first")


async def _check_version(before: TemplateVersion | None, after: TemplateVersion | None, reader: Reader) -> None:
    """Refuse what cannot be run, and a version of nothing."""
    if before is not None or after is None:
        return
    graph_of(after.spec.documents_json)
    templates = [each.name for each in await reader.records(TEMPLATE) if each.tenant == after.tenant]
    if after.spec.template not in templates:
        raise NotFoundError("template", after.spec.template)


_VERSION = derived_format(TemplateVersionSpec, "Templateversion", "The compiled pipeline, and whose version it is.")


def _write_version(spec: TemplateVersionSpec) -> Plain:
    """Write a custom resource: the pipeline as one text, because numbers of Kubernetes lose their point."""
    found = _VERSION.write(spec)
    return {**found, "spec": {**found["spec"], "documents": spec.documents_json}}


def _read_version(value: Value, sizes: Mapping[str, Resources]) -> TemplateVersionSpec:
    whole = value.data if isinstance(value.data, Mapping) else {}
    spec = whole.get("spec")
    if isinstance(spec, Mapping) and isinstance(spec.get("documents"), str):
        with suppress(ValueError):  # what is no JSON is refused as what it is: text
            value = replace(value, data={**whole, "spec": {**spec, "documents": json.loads(spec["documents"])}})
    return _VERSION.read(value, sizes)


def archive(found: RunExperiment) -> RunExperiment:
    """Set it aside."""
    return replace(found, status=replace(found.status, archived=True))


def unarchive(found: RunExperiment) -> RunExperiment:
    """Show it again."""
    return replace(found, status=replace(found.status, archived=False))


TEMPLATE: Kind[TemplateSpec, NoStatus, Template] = Kind(
    name="template",
    command="pipeline template",
    plural="templates",
    summary="Keep pipelines to run them again.",
    description="A pipeline that is kept to be run again; each of its versions is a record of its own.",
    spec=TemplateSpec,
    format=derived_format(TemplateSpec, "Template", "What it is called, and what it is for."),
    answer=Template,
    editable=True,
    columns=(Column("TITLE", lambda found: found.spec.display_name or None, last=True),),
    check=_check_template,
)

TEMPLATE_VERSION: Kind[TemplateVersionSpec, NoStatus, TemplateVersion] = Kind(
    name="templateversion",
    command="pipeline templateversion",
    plural="templateversions",
    summary="List and delete the versions of templates.",
    description="One version of a template: the compiled pipeline itself.",
    spec=TemplateVersionSpec,
    format=replace(_VERSION, read=_read_version, write_object=_write_version),
    answer=TemplateVersion,
    columns=(
        Column("TEMPLATE", lambda found: found.spec.template),
        Column("TITLE", lambda found: found.spec.display_name or None, last=True),
    ),
    check=_check_version,
)

RUN_EXPERIMENT: Kind[RunExperimentSpec, RunExperimentStatus, RunExperiment] = Kind(
    name="runexperiment",
    command="pipeline experiment",
    plural="runexperiments",
    summary="Group runs of pipelines.",
    description="A group of runs of pipelines.",
    spec=RunExperimentSpec,
    status=RunExperimentStatus,
    format=derived_format(RunExperimentSpec, "Runexperiment", "What it is called, and what it is for."),
    answer=RunExperiment,
    columns=(
        Column("STATE", lambda found: found.state),
        Column("TITLE", lambda found: found.spec.display_name or None, last=True),
    ),
    verbs=(
        Verb("archive", "Set an experiment aside.", archive, makes_it="archived"),
        Verb("unarchive", "Show an archived experiment again.", unarchive, makes_it="no longer archived"),
    ),
)
