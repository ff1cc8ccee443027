"""Gangs as pods of a Kubernetes cluster: the distributed engine.

``manifests`` turns orders into objects (pure), ``driver`` sends them, ``watch`` reads back what became of them.
Only the composition root imports this package.
"""

from gangline.engines.kubernetes.driver import KubernetesEngine
from gangline.engines.kubernetes.installation import Installation, installation_objects
from gangline.engines.kubernetes.installer import install, uninstall
from gangline.engines.kubernetes.launching import Owners
from gangline.engines.kubernetes.leadership import Leadership

__all__ = [
    "Installation",
    "KubernetesEngine",
    "Leadership",
    "Owners",
    "install",
    "installation_objects",
    "uninstall",
]
