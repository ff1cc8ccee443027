"""A real Kubernetes cluster on one Linux machine: for Gangline's tests and for people who want to try it.

Nothing is pretended but the machines: etcd, API server, controller manager, scheduler, name server, and three nodes
with containerd, kubelet and service proxy, each in namespaces of its own. The components are built once from pinned Go
modules and cached. ``python -m tools.cluster up`` starts one; tests take the ``kubernetes_cluster`` fixture.
"""

from tools.cluster.cluster import Cluster
from tools.cluster.errors import BuildError, ClusterError, ComponentFailedError, UnsupportedMachineError
from tools.cluster.images import BUSYBOX, PYTHON, Image
from tools.cluster.python_image import python_image

__all__ = [
    "BUSYBOX",
    "PYTHON",
    "BuildError",
    "Cluster",
    "ClusterError",
    "ComponentFailedError",
    "Image",
    "UnsupportedMachineError",
    "python_image",
]
