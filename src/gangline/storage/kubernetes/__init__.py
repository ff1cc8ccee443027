"""The cluster as the store: jobs and the records of every other kind are custom resources of ``gangline.dev/v1``.

``definitions`` is the one place that says what they look like; ``wire`` translates; ``store`` reads and writes.
Kubeflow's training jobs are records too, where their definitions are ours: ``kubeflow_definitions``,
``kubeflow_records``.
"""

from gangline.storage.kubernetes.definitions.kserve import kserve_definitions
from gangline.storage.kubernetes.definitions.kubeflow import kubeflow_definitions
from gangline.storage.kubernetes.definitions.native import DEFINITIONS, JOBS, resource_of
from gangline.storage.kubernetes.discovery import served_kinds
from gangline.storage.kubernetes.following.follower import Listener
from gangline.storage.kubernetes.publishing import Publisher
from gangline.storage.kubernetes.store import KubernetesStore

__all__ = [
    "DEFINITIONS",
    "JOBS",
    "KubernetesStore",
    "Listener",
    "Publisher",
    "kserve_definitions",
    "kubeflow_definitions",
    "resource_of",
    "served_kinds",
]
