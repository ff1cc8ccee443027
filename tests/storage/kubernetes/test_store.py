"""What the store makes of objects that others wrote; its contract is proved on a real cluster."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from gangline.kube import GenericObject, KubeClient
from gangline.storage.kubernetes import KubernetesStore
from gangline.storage.owned import read_queues


class Cluster:
    """Answers every list with the same objects."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._items = [msgspec.convert(each, GenericObject, strict=False) for each in objects]

    async def list(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(items=self._items)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}


async def test_a_queue_that_is_none_hides_no_other() -> None:
    cluster = Cluster(queue("broken", guarantee={"cpu": "many"}), queue("a.dotted.name"), queue("good", weight=3))
    store = KubernetesStore(cast(KubeClient, cluster), announces=False)
    assert [(each.name, each.weight) for each in await read_queues(store)] == [("default", 1), ("good", 3)]
