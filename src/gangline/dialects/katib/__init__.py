"""Katib's Experiments (``kubeflow.org/v1beta1``): read, their trials made into jobs, their status told in its words."""

from gangline.dialects.katib.experiment import (
    API_VERSION,
    KIND,
    Experiment,
    Medianstop,
    Objective,
    ResumePolicy,
    Strategy,
    experiment_of,
    read_experiment,
    with_defaults,
)
from gangline.dialects.katib.trial import (
    EXPERIMENT_LABEL,
    TRIAL_LABEL,
    Verdict,
    stand_in,
    train_job_of,
    trial_name,
    trial_to_job,
    verdict_of,
)

__all__ = [
    "API_VERSION",
    "EXPERIMENT_LABEL",
    "KIND",
    "TRIAL_LABEL",
    "Experiment",
    "Medianstop",
    "Objective",
    "ResumePolicy",
    "Strategy",
    "Verdict",
    "experiment_of",
    "read_experiment",
    "stand_in",
    "train_job_of",
    "trial_name",
    "trial_to_job",
    "verdict_of",
    "with_defaults",
]
