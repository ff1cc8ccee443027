"""The file of an Experiment, and what is refused of it. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gangline.dialects.document import compact_json
from gangline.dialects.katib import API_VERSION, ResumePolicy, experiment_of, read_experiment, stand_in, train_job_of
from gangline.dialects.value import Value
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.experiment.planning import as_sweep
from gangline.kinds.experiment.trials import parsed
from gangline.kinds.kind import Reader
from gangline.kinds.train_job import needed_runtime
from gangline.model import DEFAULT_TENANT, JobSpec, Resources, Tenant
from gangline.model.kinds.experiment import ExperimentRecord, ExperimentSpec
from gangline.model.kinds.sweep import EndReason
from gangline.sweeps import sampler_named

_EDITABLE = ("parallelTrialCount", "maxTrialCount", "maxFailedTrialCount")
_ENV = "gangline.dev/env"
"""The annotation that carries variables of whoever submits on one machine."""
_SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def read_file(value: Value, sizes: Mapping[str, Resources]) -> ExperimentSpec:
    """Read a document; the template is made into a job once, so that what is wrong with it is refused now."""
    del sizes  # Katib has none
    experiment = read_experiment(_without_tenant(value))
    if experiment.template.spec_json is not None:
        with value.located():
            stand_in(experiment)
    top = value.fields()
    metadata = top["metadata"].fields()
    tenant = metadata["tenant"].text() if "tenant" in metadata else experiment.tenant
    annotations = metadata["annotations"].strings() if "annotations" in metadata else {}
    env = json.loads(annotations.pop(_ENV, "{}"))
    kept = {
        name: part.data for name, part in metadata.items() if name not in (*_SERVER_FIELDS, "tenant", "annotations")
    }
    if annotations:
        kept["annotations"] = annotations
    body = {
        "apiVersion": API_VERSION,
        "kind": "Experiment",
        "metadata": {**kept, "namespace": tenant},
        "spec": top["spec"].data,
    }
    with value.located():
        return ExperimentSpec(name=experiment.name, tenant=Tenant(tenant), manifest_json=compact_json(body), env=env)


def _without_tenant(value: Value) -> Value:
    """Let our own word for a namespace stand beside Katib's: records are kept with it."""
    data = value.data
    metadata = data.get("metadata") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(metadata, Mapping):
        return value
    kept = {name: part for name, part in metadata.items() if name != "tenant"}
    return replace(value, data={**data, "metadata": kept})


def write_file(spec: ExperimentSpec) -> dict[str, Any]:
    """Write a document."""
    body: dict[str, Any] = json.loads(spec.manifest_json)
    metadata = {**body["metadata"], "namespace": spec.tenant}
    if spec.tenant != DEFAULT_TENANT:
        metadata["tenant"] = spec.tenant
    if spec.env:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _ENV: json.dumps(dict(spec.env))}
    return {**body, "metadata": metadata}


def each_template(spec: ExperimentSpec, change: Callable[[JobSpec], JobSpec]) -> ExperimentSpec:
    """Take over what submitting does to a job: whose it is, its Python environment, where its code is."""
    experiment = experiment_of(spec.manifest_json)
    if experiment.template.spec_json is None:
        return spec
    before = replace(stand_in(experiment).spec, tenant=spec.tenant, env=spec.env)
    after = change(before)
    body = json.loads(spec.manifest_json)
    body["metadata"]["namespace"] = after.tenant
    if after.code != before.code:
        body["spec"]["trialTemplate"]["trialSpec"]["spec"]["code"] = after.code
    return replace(spec, tenant=after.tenant, env=dict(after.env), manifest_json=compact_json(body))


def reopened(record: ExperimentRecord) -> ExperimentRecord:
    """Let an Experiment go on that has used its trials and was given more, if its policy says so."""
    status, experiment = record.status, parsed(record)
    end = status.search.end
    if not status.settled or end is None or end.reason is not EndReason.TRIALS_USED:
        return record
    if experiment.resume is ResumePolicy.NEVER or status.budget is None:
        return record
    if experiment.max_trials is not None and experiment.max_trials <= status.budget:
        return record
    search = replace(status.search, end=None, finished_at=None)
    return replace(record, status=replace(status, search=search, running_at=None, budget=None))


async def check(before: ExperimentRecord | None, after: ExperimentRecord | None, reader: Reader) -> None:
    """Refuse an Experiment whose sampler cannot run it, and edits of what cannot be changed."""
    if after is None:
        return
    if before is None:
        experiment = parsed(after)
        if experiment.template.spec_json is not None:
            template_json = after.status.template_json
            if (wanted := train_job_of(experiment)) is not None:
                field = "spec.trialTemplate.trialSpec.spec.runtimeRef.name"
                runtime = await needed_runtime(wanted, reader, field=field)
                template_json = experiment.template.with_runtime(runtime.spec.manifest_json)
            search = as_sweep(after.spec.manifest_json, template_json)
            try:
                sampler_named(search.sampler).check(search)
            except InvalidInputError as error:
                raise InvalidInputError(
                    error.problem, field="spec.algorithm.algorithmName", expected=error.expected
                ) from error
        return
    _check_edit(before, after)


def _check_edit(before: ExperimentRecord, after: ExperimentRecord) -> None:
    old, new = (json.loads(each.spec.manifest_json)["spec"] for each in (before, after))
    if old == new:
        return
    for name in sorted({*old, *new} - set(_EDITABLE)):
        if old.get(name) != new.get(name):
            raise InvalidInputError(
                "it cannot be changed", field=f"spec.{name}", expected=f"changes of {', '.join(_EDITABLE)} alone"
            )
    experiment, begun = parsed(after), before.status.search.begun
    if before.status.settled and reopened(after).status.settled:
        raise ConflictError(
            f"the Experiment '{after.name}' is completed; it can be restarted only if it has used its trials, its "
            "spec.resumePolicy is LongRunning or FromVolume, and spec.maxTrialCount is raised"
        )
    changed = new.get("maxTrialCount") != old.get("maxTrialCount")
    if changed and experiment.max_trials is not None and experiment.max_trials <= begun:
        raise InvalidInputError(
            f"{begun} trials have begun already", field="spec.maxTrialCount", expected=f"more than {begun}"
        )


def needed_config_maps(spec: ExperimentSpec) -> tuple[tuple[str, str], ...]:
    """Name the ConfigMap, by namespace and name, that holds the template, if one does."""
    source = experiment_of(spec.manifest_json).template.config_map
    return () if source is None else ((source.namespace, source.name),)
