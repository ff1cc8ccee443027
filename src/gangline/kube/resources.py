"""Which kinds of object exist: where they live on the server and what struct they decode to.

The kinds Gangline uses are constants here; a custom resource is one more ``Resource`` made by its owner.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, cast
from urllib.parse import quote

import msgspec

from gangline.kube.errors import read_answer
from gangline.kube.objects import (
    AnyObject,
    ConfigMap,
    Event,
    GenericObject,
    Lease,
    Node,
    Object,
    ObjectList,
    Pod,
    PriorityClass,
    Service,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[AnyObject]):
    """One kind of object; ``group`` is empty for the core kinds."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    type: type[AnyObject]
    namespaced: bool = field(default=True)

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Build the path of the collection, of one object, or of a part of it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    def decode(self, body: bytes) -> AnyObject:
        """Decode one object; raises AnswerError."""
        return cast(AnyObject, read_answer(body, _decoder(self.type)))

    def decode_list(self, body: bytes) -> ObjectList[AnyObject]:
        """Decode one page of a list; raises AnswerError."""
        return cast("ObjectList[AnyObject]", read_answer(body, _list_decoder(self.type)))


@cache
def _decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _list_decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(ObjectList[kind])  # type: ignore[valid-type]  # the struct is only known at run time


PODS = Resource(plural="pods", kind="Pod", type=Pod)
NODES = Resource(plural="nodes", kind="Node", type=Node, namespaced=False)
EVENTS = Resource(plural="events", kind="Event", type=Event)
CONFIG_MAPS = Resource(plural="configmaps", kind="ConfigMap", type=ConfigMap)
SECRETS = Resource(plural="secrets", kind="Secret", type=Object)
SERVICES = Resource(plural="services", kind="Service", type=Service)
NAMESPACES = Resource(plural="namespaces", kind="Namespace", type=GenericObject, namespaced=False)
VOLUME_CLAIMS = Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", type=GenericObject)
LEASES = Resource(group="coordination.k8s.io", plural="leases", kind="Lease", type=Lease)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", plural="priorityclasses", kind="PriorityClass", type=PriorityClass, namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    type=GenericObject,
    namespaced=False,
)
NETWORK_POLICIES = Resource(
    group="networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy", type=GenericObject
)
