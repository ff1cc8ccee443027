"""Which kinds of object are served: those built in, and custom resources as they are defined."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind, known by where it is served. ``has_status``: whether its status has a path of its own."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str = field(compare=False)
    namespaced: bool = field(default=True, compare=False)
    has_status: bool = field(default=False, compare=False)
    schema: dict[str, Any] | None = field(default=None, compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def place(self) -> tuple[str, str, str]:
        """Where it is served."""
        return self.group, self.version, self.plural

    def described(self) -> dict[str, Any]:
        """The kind as discovery tells it."""
        return {
            "name": self.plural,
            "kind": self.kind,
            "namespaced": self.namespaced,
            "categories": list(self.categories),
        }


PODS = Kind(plural="pods", kind="Pod", has_status=True)
NODES = Kind(plural="nodes", kind="Node", namespaced=False, has_status=True)
NAMESPACES = Kind(plural="namespaces", kind="Namespace", namespaced=False, has_status=True)
DEFINITIONS = Kind(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    has_status=True,
)
BUILT_IN = (
    PODS,
    NODES,
    NAMESPACES,
    DEFINITIONS,
    Kind(plural="events", kind="Event"),
    Kind(plural="configmaps", kind="ConfigMap"),
    Kind(plural="secrets", kind="Secret"),
    Kind(plural="services", kind="Service", has_status=True),
    Kind(plural="serviceaccounts", kind="ServiceAccount"),
    Kind(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", has_status=True),
    Kind(group="coordination.k8s.io", plural="leases", kind="Lease"),
    Kind(group="scheduling.k8s.io", plural="priorityclasses", kind="PriorityClass", namespaced=False),
    Kind(group="networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy"),
)


def kind_of_definition(definition: dict[str, Any]) -> Kind:
    """The kind that a custom resource definition makes."""
    spec = definition["spec"]
    version = next(version for version in spec["versions"] if version["storage"])
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in version.get("subresources", {}),
        schema=version["schema"]["openAPIV3Schema"],
        categories=tuple(spec["names"].get("categories", ())),
    )
