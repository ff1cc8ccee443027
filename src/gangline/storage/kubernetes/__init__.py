"""The cluster as the store: jobs and queues are custom resources of ``gangline.dev/v1``.

``definitions`` is the one place that says what they look like; ``wire`` translates; ``store`` reads and writes.
"""

from gangline.storage.kubernetes.definitions import DEFINITIONS, JOBS, QUEUES
from gangline.storage.kubernetes.following import Listener
from gangline.storage.kubernetes.store import KubernetesStore

__all__ = ["DEFINITIONS", "JOBS", "QUEUES", "KubernetesStore", "Listener"]
