"""Builders of Kubeflow jobs."""

from collections.abc import Callable
from typing import Any

import pytest

CONTAINERS = {
    "TFJob": "tensorflow",
    "PyTorchJob": "pytorch",
    "MPIJob": "mpi",
    "XGBoostJob": "xgboost",
    "PaddleJob": "paddle",
    "JAXJob": "jax",
}
REPLICAS = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
Plain = dict[str, Any]


def make_replica(
    kind: str = "TFJob",
    count: int | None = 1,
    restart: str | None = None,
    *,
    pod: Plain | None = None,
    **container: Any,
) -> Plain:
    main = {"name": CONTAINERS[kind], "image": "acme/train:1", "command": ["python"], "args": ["train.py"], **container}
    replica: Plain = {"template": {"spec": {"containers": [main], **(pod or {})}}}
    if count is not None:
        replica["replicas"] = count
    if restart is not None:
        replica["restartPolicy"] = restart
    return replica


def make_job(
    kind: str, replicas: Plain, *, version: str = "kubeflow.org/v1", name: str = "mnist", **spec: Any
) -> Plain:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {REPLICAS[kind]: replicas, **spec},
    }


@pytest.fixture
def replica() -> Callable[..., Plain]:
    return make_replica


@pytest.fixture
def job() -> Callable[..., Plain]:
    return make_job
