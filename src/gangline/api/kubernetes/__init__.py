"""The small part of the Kubernetes REST interface that clients of Kubeflow's training jobs use.

It lets the Kubeflow Training SDK, and whoever else speaks to a cluster by a kubeconfig, drive a local service: jobs,
their pods, the pods' logs and events, and the ConfigMaps and Secrets they read. Wire to operations and back, like
``rest``; every object is made of a job's record when it is asked for, none is kept. docs/kubeflow.md is the manual.
"""

from gangline.api.kubernetes.application import make_kubernetes_app

__all__ = ["make_kubernetes_app"]
