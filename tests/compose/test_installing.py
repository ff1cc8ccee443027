"""What is checked before anything is put into a cluster."""

import json
from typing import Any

import pytest

from gangline.compose.installing import ClusterInstallation, Kubeflow, checked_version, count_contents
from gangline.errors import GanglineError
from gangline.kube import GenericObject, NotFoundError, ObjectList, Resource


class Server:
    """As much of a cluster as tells its version."""

    def __init__(self, minor: str) -> None:
        self._minor = minor

    async def raw(self, path: str) -> bytes:
        assert path == "/version"
        return json.dumps({"major": "1", "minor": self._minor, "gitVersion": f"v1.{self._minor}.3"}).encode()


@pytest.mark.parametrize(("minor", "want"), [("30", "1.30.3"), ("36", "1.36.3"), ("31+", "1.31+.3")])
async def test_a_cluster_that_is_new_enough_is_named(minor: str, want: str) -> None:
    assert await checked_version(Server(minor)) == want


async def test_a_cluster_that_is_too_old_is_left_alone() -> None:
    with pytest.raises(GanglineError, match=r"v1\.29\.3 is too old: 1\.30 or newer is needed; nothing was changed"):
        await checked_version(Server("29"))


@pytest.mark.parametrize(
    ("kubeflow", "want"),
    [pytest.param(Kubeflow.LEAVE, False, id="left alone"), pytest.param(Kubeflow.RUN, True, id="taken over")],
)
def test_kubeflows_kinds_are_defined_only_when_asked_for(kubeflow: Kubeflow, want: bool) -> None:
    objects = ClusterInstallation(context="", kubeflow=kubeflow).objects()
    names = {body["metadata"]["name"] for body in objects if body["kind"] == "CustomResourceDefinition"}
    assert ("tfjobs.kubeflow.org" in names) is want
    assert {"jobs.gangline.dev", "queues.gangline.dev", "sweeps.gangline.dev"} <= names


class Contained:
    """A cluster with so many objects of each kind; a kind that is not named is not defined."""

    def __init__(self, *, ours: bool, **counts: int) -> None:
        self._counts = counts
        self._categories = ["gangline"] if ours else []

    async def list(self, resource: Resource[Any]) -> ObjectList[Any]:
        if resource.plural not in self._counts:
            raise NotFoundError(f"no {resource.plural}", status=404)
        return ObjectList(items=[GenericObject()] * self._counts[resource.plural])

    async def get(self, _: Resource[Any], name: str) -> GenericObject:
        if name.partition(".")[0] not in self._counts:
            raise NotFoundError(f"no {name}", status=404)
        return GenericObject(spec={"names": {"categories": self._categories}})


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        pytest.param(Contained(ours=True), "0 jobs", id="nothing is installed"),
        pytest.param(Contained(ours=True, jobs=1, sweeps=0), "1 job", id="a job"),
        pytest.param(Contained(ours=True, jobs=2, sweeps=1), "2 jobs and 1 sweep", id="jobs and a sweep"),
        pytest.param(
            Contained(ours=True, jobs=2, tfjobs=3, mpijobs=1, sweeps=2), "6 jobs and 2 sweeps", id="jobs of Kubeflow"
        ),
        pytest.param(Contained(ours=False, jobs=2, tfjobs=3), "2 jobs", id="jobs of Kubeflow's own operator"),
    ],
)
async def test_what_an_uninstallation_deletes_is_counted(cluster: Contained, want: str) -> None:
    assert str(await count_contents(cluster)) == want
