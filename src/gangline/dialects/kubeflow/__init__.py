"""Kubeflow's training jobs into the model, and a job's status back out; docs/kubeflow.md is the manual.

Reads ``kubeflow.org/v1`` TFJob, PyTorchJob, MPIJob, XGBoostJob, PaddleJob and JAXJob, ``v2beta1`` MPIJob, and the
TFJob of old. The command line, the REST service and the Kubernetes store call it; it talks to no cluster.
"""

from gangline.dialects.kubeflow.job import ENDLESS, job_from_value
from gangline.dialects.kubeflow.kinds import GROUP, KINDS, Kind, RestartPolicy, kind_of, replica_name
from gangline.dialects.kubeflow.pod_template import expand_references
from gangline.dialects.kubeflow.status import (
    JOB_NAME_LABEL,
    JOB_ROLE_LABEL,
    OPERATOR_LABEL,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    job_conditions,
    job_to_status,
    selector_labels,
    time_text,
)

__all__ = [
    "ENDLESS",
    "GROUP",
    "JOB_NAME_LABEL",
    "JOB_ROLE_LABEL",
    "KINDS",
    "OPERATOR_LABEL",
    "REPLICA_INDEX_LABEL",
    "REPLICA_TYPE_LABEL",
    "Kind",
    "RestartPolicy",
    "expand_references",
    "job_conditions",
    "job_from_value",
    "job_to_status",
    "kind_of",
    "replica_name",
    "selector_labels",
    "time_text",
]
