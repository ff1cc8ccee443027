"""Kubeflow Trainer's TrainJobs and runtimes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.kubernetes.experiments import EXPERIMENTS
from gangline.api.kubernetes.foreign_kinds import ForeignKind
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.requests import context_of, find_job, tenant_of
from gangline.dialects import document
from gangline.dialects.katib import EXPERIMENT_LABEL
from gangline.dialects.katib.status import train_jobs_to_objects
from gangline.dialects.trainer import read_cluster_runtime, read_runtime, read_train_job
from gangline.dialects.trainer.status import manifest_to_object, train_job_to_object
from gangline.dialects.value import Value
from gangline.errors import NotFoundError
from gangline.kinds import AnyKind
from gangline.kinds.experiment import EXPERIMENT
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAIN_JOBS, TRAINING_RUNTIME


def _foreign(kind: AnyKind, show: Callable[[Any], Plain], read: Callable[[Value], Any]) -> ForeignKind[Any, Any, Any]:
    return ForeignKind(
        kind=kind,
        show=show,
        read=lambda sent: read(document.plain(sent)),
        changed=lambda known, before, wanted: read(document.plain(wanted)),
        drafted=lambda record: record,
    )


async def _of_trials(request: web.Request, name: str | None) -> list[Plain]:
    """The TrainJobs that trials of Experiments are: they have the names of their trials."""
    if name is None:
        return [each for view in await EXPERIMENTS.views(request) for each in train_jobs_to_objects(view)]
    try:
        experiment = (await find_job(request, name)).spec.labels.get(EXPERIMENT_LABEL, "")
        view = await operations.get_record(context_of(request), EXPERIMENT, tenant_of(request), experiment)
    except NotFoundError:
        return []
    return [each for each in train_jobs_to_objects(view) if each["metadata"]["name"] == name]


TRAINER = (
    replace(_foreign(TRAIN_JOBS, train_job_to_object, read_train_job), beside=_of_trials),
    _foreign(TRAINING_RUNTIME, manifest_to_object, read_runtime),
    _foreign(CLUSTER_TRAINING_RUNTIME, manifest_to_object, read_cluster_runtime),
)
