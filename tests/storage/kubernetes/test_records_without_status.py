"""Records that have no status, as objects."""

from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from gangline.kinds.template import TEMPLATE
from gangline.kube import GenericObject, KubeClient, Metadata
from gangline.model import Timestamp
from gangline.model.kinds.template import Template, TemplateSpec
from gangline.model.record import NoStatus, RecordId
from gangline.storage.kubernetes.objects import JobObjects
from gangline.storage.kubernetes.record_objects import RecordObjects

SECOND = datetime(2026, 1, 1, tzinfo=UTC)


class Cluster:
    """Keeps what is made, stamped with the whole second in which it was."""

    async def list(self, *_: object, **__: object) -> Any:
        return cast(Any, type("Page", (), {"items": []}))

    async def create(self, _: object, body: dict[str, Any]) -> GenericObject:
        made = {"uid": "u", "creationTimestamp": SECOND, "resourceVersion": "1", **body["metadata"]}
        return GenericObject(metadata=msgspec.convert(made, Metadata), spec=body["spec"], status={})


async def test_what_was_made_within_one_second_keeps_its_order() -> None:
    client = cast(KubeClient, Cluster())
    objects = RecordObjects(client, JobObjects(client, prefix="", namespace=None), TEMPLATE)

    async def made(name: str, after: float) -> float:
        at = Timestamp(SECOND.timestamp() + after)
        spec = TemplateSpec(name=name)
        return (
            await objects.create(Template(id=RecordId(name), spec=spec, status=NoStatus(), created_at=at))
        ).created_at

    first, second = await made("a", 0.25), await made("b", 0.5)
    assert (first, second) == (SECOND.timestamp() + 0.25, SECOND.timestamp() + 0.5)


def test_a_time_that_somebody_damaged_is_the_servers() -> None:
    objects = RecordObjects(
        cast(KubeClient, None), JobObjects(cast(KubeClient, None), prefix="", namespace=None), TEMPLATE
    )
    for said, seen in {"4000000000.0": 1.0, "-1": 0.0}.items():
        metadata = Metadata(
            name="a",
            namespace="vision",
            uid="u",
            resource_version="1",
            creation_timestamp=SECOND,
            annotations={"gangline.dev/created-at": said},
        )
        found = objects.read(GenericObject(metadata=metadata, spec={}, status={})).created_at
        assert 0 <= found - SECOND.timestamp() <= seen
