"""Gangs as pods of a Kubernetes cluster: the distributed engine.

``manifests`` builds objects (pure), ``launching`` sends them, ``watch`` sees what became of them, ``node_rules`` says
where pods may go, ``orders`` carries out what the controller wants; ``engine`` puts them together. ``observer`` is what
a person's own machine needs of it. Only the composition roots import this package. Its names are
imported when first used: a command that lists the jobs of a cluster does not wait for the driver and the scheduler.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.engines.kubernetes.engine import KubernetesEngine
    from gangline.engines.kubernetes.foreign.pod_jobs import PodJobs
    from gangline.engines.kubernetes.installing.applying import check_rights, install, uninstall, wait_until_available
    from gangline.engines.kubernetes.installing.objects import CACHE_CLAIM, Installation, installation_objects
    from gangline.engines.kubernetes.launching.launcher import Owners
    from gangline.engines.kubernetes.leadership import Leadership
    from gangline.engines.kubernetes.manifests.moves import CacheClaim
    from gangline.engines.kubernetes.names import is_pod_job

__all__ = [
    "CACHE_CLAIM",
    "CacheClaim",
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
    "CACHE_CLAIM": "installing.objects",
    "CacheClaim": "manifests.moves",
    "Installation": "installing.objects",
    "KubernetesEngine": "engine",
    "Leadership": "leadership",
    "Owners": "launching.launcher",
    "PodJobs": "foreign.pod_jobs",
    "check_rights": "installing.applying",
    "install": "installing.applying",
    "installation_objects": "installing.objects",
    "is_pod_job": "names",
    "uninstall": "installing.applying",
    "wait_until_available": "installing.applying",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
