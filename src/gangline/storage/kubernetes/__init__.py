"""The cluster as the store: jobs, queues and sweeps are custom resources of ``gangline.dev/v1``.

``definitions`` is the one place that says what they look like; ``wire`` translates; ``store`` reads and writes.
Kubeflow's training jobs are records too, where their definitions are ours: ``kubeflow_definitions``,
``kubeflow_records``.
"""

from gangline.storage.kubernetes.definitions import DEFINITIONS, JOBS, QUEUES, SWEEPS
from gangline.storage.kubernetes.explanations import ToldExplanation
from gangline.storage.kubernetes.following import Listener
from gangline.storage.kubernetes.kubeflow_definitions import kubeflow_definitions
from gangline.storage.kubernetes.store import KubernetesStore

__all__ = [
    "DEFINITIONS",
    "JOBS",
    "QUEUES",
    "SWEEPS",
    "KubernetesStore",
    "Listener",
    "ToldExplanation",
    "kubeflow_definitions",
]
