"""The runtimes that are there without anybody making them, under the names that Trainer's clients ask for. Pure.

Images are upstream's; only a cluster uses them. What downloads from Hugging Face (torchtune's runtimes) is not here.
"""

from typing import Any

from gangline.dialects.document import compact_json
from gangline.dialects.trainer.documents import API_VERSION, CLUSTER_RUNTIME, FRAMEWORK_LABEL, STEP_LABEL
from gangline.model.kinds.train_job import ClusterTrainingRuntimeSpec

Plain = dict[str, Any]

_IMAGES = "ghcr.io/kubeflow/trainer"
_TORCH_IMAGE = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"


def _job(name: str, image: str, *, trains: bool, **container: Any) -> Plain:
    pod = {"containers": [{"name": "node", "image": image, **container}]}
    labels = {"metadata": {"labels": {STEP_LABEL: "trainer"}}} if trains else {}
    return {"name": name, "template": {**labels, "spec": {"template": {"spec": pod}}}}


def _runtime(name: str, framework: str, policy: Plain, *jobs: Plain) -> ClusterTrainingRuntimeSpec:
    body = {
        "apiVersion": API_VERSION,
        "kind": CLUSTER_RUNTIME,
        "metadata": {"name": name, "labels": {FRAMEWORK_LABEL: framework}},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": {"replicatedJobs": list(jobs)}}},
    }
    return ClusterTrainingRuntimeSpec(name=name, manifest_json=compact_json(body))


def _mpi_runtime(framework: str) -> ClusterTrainingRuntimeSpec:
    image = f"{_IMAGES}/{framework}-runtime"
    policy = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "runLauncherAsNode": True}
    return _runtime(
        f"{framework}-distributed",
        framework,
        {"mpi": policy},
        _job("node", image, trains=False, command=["/usr/sbin/sshd"], args=["-De"]),
        _job("launcher", image, trains=True),
    )


SHIPPED: tuple[ClusterTrainingRuntimeSpec, ...] = (
    _runtime("torch-distributed", "torch", {"torch": {}}, _job("node", _TORCH_IMAGE, trains=True)),
    _runtime("jax-distributed", "jax", {"jax": {}}, _job("node", f"{_IMAGES}/jax-runtime", trains=True)),
    _runtime(
        "xgboost-distributed", "xgboost", {"xgboost": {}}, _job("node", f"{_IMAGES}/xgboost-runtime", trains=True)
    ),
    _mpi_runtime("deepspeed"),
    _mpi_runtime("mlx"),
)
