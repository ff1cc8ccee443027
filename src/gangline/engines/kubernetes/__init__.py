"""Gangs as pods of a Kubernetes cluster: the distributed engine.

``manifests`` turns orders into objects (pure), ``driver`` sends them, ``watch`` reads back what became of them;
``observer`` is what a person's own machine needs of it. Only the composition roots import this package. Its names are
imported when first used: a command that lists the jobs of a cluster does not wait for the driver and the scheduler.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.engines.kubernetes.driver import KubernetesEngine
    from gangline.engines.kubernetes.foreign.pod_jobs import PodJobs, is_pod_job
    from gangline.engines.kubernetes.installation import Installation, installation_objects
    from gangline.engines.kubernetes.installer import check_rights, install, uninstall, wait_until_available
    from gangline.engines.kubernetes.launching import Owners
    from gangline.engines.kubernetes.leadership import Leadership

__all__ = [
    "Installation",
    "KubernetesEngine",
    "Leadership",
    "Owners",
    "PodJobs",
    "check_rights",
    "install",
    "installation_objects",
    "is_pod_job",
    "uninstall",
    "wait_until_available",
]

_HOMES = {
    "Installation": "installation",
    "KubernetesEngine": "driver",
    "Leadership": "leadership",
    "Owners": "launching",
    "PodJobs": "foreign.pod_jobs",
    "check_rights": "installer",
    "install": "installer",
    "installation_objects": "installation",
    "is_pod_job": "foreign.pod_jobs",
    "uninstall": "installer",
    "wait_until_available": "installer",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
