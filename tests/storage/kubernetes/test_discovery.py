"""Which of Kubeflow's kinds a cluster's marks and a client's rights make ours."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gangline.kube import NotFoundError
from gangline.storage.kubernetes.discovery import kubeflow_kinds


class Cluster:
    """Answers what discovery asks: which resources are served, and what the client may do."""

    def __init__(self, *resources: dict[str, Any], allowed: bool = True) -> None:
        self._resources = resources
        self._allowed = allowed
        self.asked: list[dict[str, Any]] = []

    async def raw(self, path: str) -> bytes:
        if not self._resources:
            raise NotFoundError(path, status=404)
        return json.dumps({"resources": self._resources}).encode()

    async def create(self, _: object, body: dict[str, Any]) -> SimpleNamespace:
        self.asked.append(body["spec"]["resourceAttributes"])
        return SimpleNamespace(status={"allowed": self._allowed})


OURS = {"name": "tfjobs", "categories": ["gangline"]}
THEIRS = {"name": "pytorchjobs", "categories": ["all"]}


@pytest.mark.parametrize(
    ("cluster", "plurals"),
    [
        pytest.param(Cluster(), [], id="no Kubeflow"),
        pytest.param(Cluster(THEIRS), [], id="upstream's"),
        pytest.param(Cluster(OURS, THEIRS), ["tfjobs"], id="marked as ours"),
        pytest.param(Cluster(OURS, allowed=False), [], id="marked as ours, but no longer to be seen"),
    ],
)
async def test_marks_and_rights_together_make_a_kind_ours(cluster: Cluster, plurals: list[str]) -> None:
    kinds = await kubeflow_kinds(cluster, namespace=None)
    assert [kind.resource.plural for kind in kinds] == plurals


async def test_rights_are_asked_for_where_they_are_needed() -> None:
    cluster = Cluster(OURS)
    await kubeflow_kinds(cluster, namespace="red")
    assert cluster.asked == [{"group": "kubeflow.org", "resource": "tfjobs", "verb": "list", "namespace": "red"}]
