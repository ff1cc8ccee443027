"""Which nodes a shape must not use: readiness, cordons, selectors, taints, GPU types."""

from collections.abc import Iterable

import numpy as np

from gangline.model import Taint, Toleration
from gangline.scheduling.plugins.interface import Refusal
from gangline.scheduling.shapes import Shape
from gangline.scheduling.table import NodeTable


class NodeHealth:
    """Keeps new replicas off nodes that are not ready or are cordoned."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse what is not usable."""
        del shape
        yield Refusal("not ready", ~table.ready)
        yield Refusal("cordoned", table.cordoned)


class SelectorMatch:
    """Keeps replicas on nodes that carry every label they select."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes per label that is absent or different."""
        for key, value in shape.selector:
            yield Refusal(f"label {key} is not {value}", ~table.label(key).equal_to(value))


class TaintToleration:
    """Keeps replicas off tainted nodes unless they tolerate the taint."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes per taint that no toleration matches."""
        for taint, carriers in table.taints():
            if not any(tolerates(toleration, taint) for toleration in shape.tolerations):
                named = f"{taint.key}={taint.value}" if taint.value else taint.key
                yield Refusal(f"taint {named} is not tolerated", carriers)


class GpuType:
    """Keeps replicas that name GPU types on nodes of one of those types."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes of any other type."""
        if shape.gpu_types:
            wanted = np.zeros(len(table), dtype=np.bool_)
            for name in shape.gpu_types:
                wanted |= table.gpu_type.equal_to(name)
            yield Refusal(f"GPU type is not {' or '.join(shape.gpu_types)}", ~wanted)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' rule: an empty key or effect matches all, ``Exists`` ignores the value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists" or toleration.value == taint.value
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
