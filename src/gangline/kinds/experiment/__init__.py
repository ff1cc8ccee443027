"""The kind Experiment: a search that Katib's clients wrote, run as a sweep."""

from typing import Any

from gangline.dialects.katib import API_VERSION, experiment_of, train_job_of
from gangline.dialects.katib.status import refused_status
from gangline.kinds.experiment.files import check, each_template, needed_config_maps, read_file, reopened, write_file
from gangline.kinds.experiment.planning import plan_experiment
from gangline.kinds.experiment.showing import best_text, is_news, progress_text, published, view_experiment
from gangline.kinds.kind import AnyKind, Column, FileFormat, Kind
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from gangline.model.kinds.experiment import ExperimentProgress, ExperimentSpec, ExperimentView
from gangline.sweeps import may_take_long

__all__ = ["EXPERIMENT", "check", "plan_experiment", "read_file", "reopened", "view_experiment", "write_file"]

_ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCHEMA = {**_ANYTHING, "description": "An Experiment of Katib."}


def _related(spec: ExperimentSpec) -> tuple[AnyKind, ...]:
    """Runtimes, where trials are TrainJobs or may be: what a ConfigMap holds is not known yet."""
    experiment = experiment_of(spec.manifest_json)
    unknown = experiment.template.spec_json is None
    return (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME) if unknown or train_job_of(experiment) is not None else ()


EXPERIMENT: Kind[ExperimentSpec, ExperimentProgress, ExperimentView] = Kind(
    name="experiment",
    plural="experiments",
    api_version=API_VERSION,
    summary="Run Katib's Experiments.",
    description="Experiment: a search of Katib's, run by Gangline; each trial is a job of its own.",
    spec=ExperimentSpec,
    status=ExperimentProgress,
    answer=ExperimentView,
    editable=True,
    format=FileFormat(read=read_file, write=write_file, schema=_SCHEMA),
    columns=(
        Column("STATE", lambda view: view.state),
        Column("TRIALS", progress_text),
        Column("NOTE", lambda view: view.note or None, wide=True),
        Column("BEST", best_text, last=True),
    ),
    plan=plan_experiment,
    plans_slowly=lambda spec: may_take_long(experiment_of(spec.manifest_json).algorithm.sampler),
    view=view_experiment,
    follows=lambda spec: experiment_of(spec.manifest_json).objective.metrics,
    follows_ended=is_news,
    each_template=each_template,
    related=_related,
    check=check,
    reopened=reopened,
    config_maps=needed_config_maps,
    published=published,
    refused=refused_status,
)
