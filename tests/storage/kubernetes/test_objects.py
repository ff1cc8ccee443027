"""What is asked of the API server to find one job: never for all of them."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from gangline.errors import NotFoundError, UnreadableRecordError
from gangline.kube import GenericObject, Metadata, ObjectList, Resource
from gangline.kube import NotFoundError as KubeNotFoundError
from gangline.model import JobId, Tenant
from gangline.storage.kubernetes import KubernetesStore
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.records.creation import JOB_ID
from gangline.storage.kubernetes.records.custom_resources import NAME
from gangline.storage.kubernetes.records.native import NATIVE
from gangline.testing.builders import make_job


class Server:
    """Holds job objects and notes what it is asked."""

    namespace = "default"

    def __init__(self, *items: GenericObject) -> None:
        self.items = {item.metadata.name: item for item in items}
        self.asked: list[str] = []

    async def get(self, resource: Resource[Any], name: str, *, namespace: str) -> GenericObject:
        self.asked.append(f"get {name}")
        if name not in self.items:
            raise KubeNotFoundError("not there", status=404, reason="NotFound")
        return self.items[name]

    async def list(
        self, resource: Resource[Any], *, namespace: str | None = None, labels: Any = None
    ) -> ObjectList[GenericObject]:
        self.asked.append(f"list {labels or 'all'}")
        wanted = labels.items() if isinstance(labels, dict) else ()
        found = (item for item in self.items.values() if all(item.metadata.labels.get(k) == v for k, v in wanted))
        return ObjectList(items=list(found))


def item(
    name: str, *, job_id: str, alias_of: str | None = None, namespace: str = "default", day: int = 1
) -> GenericObject:
    job = make_job(job_id=job_id, name=alias_of or name)
    body = NATIVE.body(job, (), namespace=namespace, name=name)
    metadata = Metadata(
        name=name,
        namespace=namespace,
        uid=f"uid-{namespace}-{name}-{day}",
        resource_version=str(day),
        labels={JOB_ID: job_id} | ({NAME: alias_of} if alias_of else {}),
        creation_timestamp=datetime(2026, 1, day, tzinfo=UTC),
    )
    return GenericObject(metadata=metadata, spec=body["spec"], status=body.get("status") or {})


def store_on(server: Server) -> KubernetesStore:
    store = KubernetesStore(server, announces=False)  # type: ignore[arg-type]  # the fake
    store._objects._kinds = {NATIVE.resource.plural: NATIVE}
    return store


async def test_a_job_is_found_by_its_name_without_a_list_of_all() -> None:
    server = Server(item("mnist", job_id="a"), item("other", job_id="b"))
    assert (await store_on(server).find(Tenant("default"), "mnist")).id == "a"
    assert sorted(server.asked) == ["get mnist", "list {'gangline.dev/name': 'mnist'}"]


async def test_a_job_whose_object_bears_another_name_is_found() -> None:
    server = Server(item("mnist-2", job_id="a", alias_of="mnist"), item("other", job_id="b"))
    assert (await store_on(server).find(Tenant("default"), "mnist")).id == "a"


async def test_the_object_of_an_alias_is_no_job_of_that_name() -> None:
    server = Server(item("mnist-2", job_id="a", alias_of="mnist"))
    with pytest.raises(NotFoundError, match="did you mean 'mnist'"):
        await store_on(server).find(Tenant("default"), "mnist-2")


async def test_nobody_is_asked_for_what_cannot_be_a_name_or_an_id() -> None:
    server = Server(item("mnist", job_id="a"))
    store = store_on(server)
    with pytest.raises(NotFoundError):
        await store.find(Tenant("default"), "../mnist")
    assert server.asked == ["list all"], "for the hint"
    with pytest.raises(NotFoundError):
        await store.get(JobId("a b"))
    assert server.asked == ["list all"]


async def test_a_job_named_by_its_id_needs_no_hint() -> None:
    server = Server(item("mnist", job_id="a"))
    store = store_on(server)
    await store.get(JobId("a"))
    server.asked.clear()
    with pytest.raises(NotFoundError):
        await store.find(Tenant("default"), "a")
    assert "list all" not in server.asked


def objects_of(*items: GenericObject) -> JobObjects:
    """What a watch knows that was told of these, in this order; what is refused is left out."""
    objects = JobObjects(Server(), prefix="", namespace=None)  # type: ignore[arg-type]  # the fake
    for each in items:
        with contextlib.suppress(UnreadableRecordError):
            objects.read(each, NATIVE)
    return objects


@pytest.mark.parametrize("forged_first", [False, True])
def test_nobody_has_a_hand_in_a_job_of_another_tenant_by_bearing_its_id(*, forged_first: bool) -> None:
    real, forged = item("mnist", job_id="a", namespace="red"), item("other", job_id="a", namespace="blue", day=2)
    objects = objects_of(forged, real) if forged_first else objects_of(real, forged)
    assert objects.known[JobId("a")].namespace == "red"
    with pytest.raises(UnreadableRecordError, match="blue/other has the id of another job"):
        objects.decode(forged, NATIVE)
    assert objects.is_superseded(forged), "so its deletion stops nothing"
    assert not objects.is_superseded(real)


def test_an_object_that_is_made_anew_in_its_place_is_the_same_job() -> None:
    objects = objects_of(item("mnist", job_id="a"), item("mnist", job_id="a", day=2))
    assert objects.known[JobId("a")].uid == "uid-default-mnist-2"


def test_nobody_displaces_a_known_job_by_writing_its_id_into_an_older_object() -> None:
    real, older = item("mnist", job_id="a", namespace="red", day=2), item("other", job_id="a", namespace="blue")
    objects = objects_of(real)
    objects.listed.add(NATIVE.resource.plural)
    with pytest.raises(UnreadableRecordError, match="blue/other has the id of another job"):
        objects.decode(older, NATIVE)
    assert objects.decode(real, NATIVE) is not None
