"""A Kubernetes API server in memory, for suites that would otherwise need a cluster: real HTTP, no root, no programs.

``objects`` keeps what there is and refuses what the real server would; ``server`` speaks HTTP; ``kubelet`` runs the
pods that are bound to a node as processes of this machine. It knows what Gangline's client uses and no more. What it
claims to do as the real one does is ``tests/kube/server_suite.py``, which a real cluster passes, too.
"""

from tests.apiserver.server import ApiServer

__all__ = ["ApiServer"]
