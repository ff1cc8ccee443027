"""What is checked before anything is put into a cluster."""

import json

import pytest

from gangline.compose.installing import ClusterInstallation, Kubeflow, checked_version
from gangline.errors import GanglineError


class Server:
    """As much of a cluster as tells its version."""

    def __init__(self, minor: str) -> None:
        self._minor = minor

    async def raw(self, path: str) -> bytes:
        assert path == "/version"
        return json.dumps({"major": "1", "minor": self._minor, "gitVersion": f"v1.{self._minor}.3"}).encode()


@pytest.mark.parametrize(("minor", "want"), [("29", "1.29.3"), ("36", "1.36.3"), ("31+", "1.31+.3")])
async def test_a_cluster_that_is_new_enough_is_named(minor: str, want: str) -> None:
    assert await checked_version(Server(minor)) == want


async def test_a_cluster_that_is_too_old_is_left_alone() -> None:
    with pytest.raises(GanglineError, match=r"v1\.28\.3 is too old: 1\.29 or newer is needed; nothing was changed"):
        await checked_version(Server("28"))


@pytest.mark.parametrize(
    ("kubeflow", "want"),
    [pytest.param(Kubeflow.LEAVE, False, id="left alone"), pytest.param(Kubeflow.RUN, True, id="taken over")],
)
def test_kubeflows_kinds_are_defined_only_when_asked_for(kubeflow: Kubeflow, want: bool) -> None:
    objects = ClusterInstallation(context="", kubeflow=kubeflow).objects()
    names = {body["metadata"]["name"] for body in objects if body["kind"] == "CustomResourceDefinition"}
    assert ("tfjobs.kubeflow.org" in names) is want
    assert {"jobs.gangline.dev", "queues.gangline.dev", "sweeps.gangline.dev"} <= names
