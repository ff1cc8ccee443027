"""What of a job's file is sent beside it, and what of others is left alone."""

from typing import Any

import pytest

from gangline.engines.kubernetes.launching.submitted_objects import send_object
from gangline.errors import ConflictError, InvalidInputError
from tests.engines.kubernetes.fake_cluster import FakeCluster

Plain = dict[str, Any]


def claim(**spec: Any) -> Plain:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}


async def test_a_claim_is_made_in_the_jobs_namespace_without_what_a_server_filled_in(cluster: FakeCluster) -> None:
    mine = claim(accessModes=["ReadWriteOnce"])
    mine["metadata"] |= {"namespace": "elsewhere", "uid": "u", "labels": {"team": "vision"}}
    await send_object(cluster, "red", {**mine, "status": {"phase": "Bound"}})  # type: ignore[arg-type]  # the fake
    made = cluster.objects["persistentvolumeclaims", "data"]
    assert made["metadata"]["namespace"] == "red"
    assert made["metadata"]["labels"] == {"team": "vision"}
    assert "status" not in made


@pytest.mark.parametrize(
    ("wanted", "want_refusal"),
    [
        pytest.param({"accessModes": ["ReadWriteOnce"]}, False, id="the server only added to it"),
        pytest.param({"resources": {"requests": {"storage": "1Gi"}}}, False, id="a part of it"),
        pytest.param({"resources": {"requests": {"storage": "2Gi"}}}, True, id="another size"),
        pytest.param({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, True, id="one mode more"),
    ],
)
async def test_a_claim_of_somebody_else_must_say_what_the_file_says(
    cluster: FakeCluster, wanted: Plain, want_refusal: bool
) -> None:
    theirs = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v"}
    cluster.objects["persistentvolumeclaims", "data"] = claim(**theirs)
    if want_refusal:
        with pytest.raises(ConflictError, match="PersistentVolumeClaim 'data' in namespace 'red'"):
            await send_object(cluster, "red", claim(**wanted))  # type: ignore[arg-type]  # the fake
    else:
        await send_object(cluster, "red", claim(**wanted))  # type: ignore[arg-type]  # the fake
    assert cluster.objects["persistentvolumeclaims", "data"]["spec"] == theirs


async def test_a_namespace_lies_in_none(cluster: FakeCluster) -> None:
    await send_object(cluster, "red", {"kind": "Namespace", "metadata": {"name": "red"}})  # type: ignore[arg-type]  # the fake
    assert "namespace" not in cluster.objects["namespaces", "red"]["metadata"]


async def test_other_kinds_are_refused(cluster: FakeCluster) -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "all"}}
    with pytest.raises(InvalidInputError, match="a ClusterRole is not sent with a job"):
        await send_object(cluster, "red", role)  # type: ignore[arg-type]  # the fake
