"""Kubeflow Trainer's kinds (``trainer.kubeflow.org/v1alpha1``): a TrainJob and its runtime into a job, status back out.

The API, the record driver and the Kubernetes store call it. What a runtime describes is a JobSet; none is made: the
replicated job that trains becomes the roles of one gang.
"""

from gangline.dialects.trainer.documents import (
    API_VERSION,
    CLUSTER_RUNTIME,
    FRAMEWORK_LABEL,
    GROUP,
    RUNTIME,
    TRAIN_JOB,
    read_cluster_runtime,
    read_runtime,
    read_train_job,
    runtime_of,
    suspended,
)
from gangline.dialects.trainer.job import ORIGIN, PODS, jobset_labels, train_job_to_job

__all__ = [
    "API_VERSION",
    "CLUSTER_RUNTIME",
    "FRAMEWORK_LABEL",
    "GROUP",
    "ORIGIN",
    "PODS",
    "RUNTIME",
    "TRAIN_JOB",
    "jobset_labels",
    "read_cluster_runtime",
    "read_runtime",
    "read_train_job",
    "runtime_of",
    "suspended",
    "train_job_to_job",
]
