"""What the clients of somebody else's kind look at."""

from typing import Any, cast

from gangline.kinds.experiment import EXPERIMENT
from gangline.kinds.kind import Published
from gangline.kube import KubeClient, Owner, OwnerReference, Resource
from gangline.storage.kubernetes.publishing import Publisher


class Cluster:
    """Notes what is written, in its order."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def create(self, resource: Resource[Any], *_: object, **__: object) -> None:
        self.written.append(f"made {resource.kind}")

    async def patch(self, resource: Resource[Any], *_: object, **__: object) -> None:
        self.written.append(resource.kind)


async def test_trials_are_up_to_date_before_their_experiment_is_seen_to_end() -> None:
    cluster = Cluster()
    publisher = Publisher(cast(KubeClient, cluster))
    reference = OwnerReference(api_version="kubeflow.org/v1beta1", kind="Experiment", name="e", uid="u")
    for state in ("Running", "Succeeded"):
        trial = {
            "apiVersion": "kubeflow.org/v1beta1",
            "kind": "Trial",
            "metadata": {"name": "e-1"},
            "spec": {},
            "status": {"conditions": [state]},
        }
        told = Published(status={"conditions": [state]}, children=(trial,))
        await publisher.publish(EXPERIMENT, "id", Owner("vision", reference), told)
    assert cluster.written == ["made Trial", "Trial", "Experiment", "Trial", "Experiment"]
