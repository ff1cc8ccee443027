"""Which nodes a shape must not use: readiness, cordons, selectors, taints, GPU types."""

from collections.abc import Iterable

import numpy as np

from gangline.model import Match, NodeRequirement, NodeTerm
from gangline.model.jobs.placement import NODE_NAME
from gangline.model.resources import GPU_MEMORY
from gangline.scheduling.demand.shapes import Shape
from gangline.scheduling.nodes.table import ABSENT, Bools, Interned, NodeTable
from gangline.scheduling.plugins.interface import Refusal


class NodeHealth:
    """Keeps new replicas off nodes that are not ready or are cordoned."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse what is not usable."""
        del shape
        yield Refusal("not ready", ~table.ready)
        yield Refusal("cordoned", table.cordoned)


class SelectorMatch:
    """Keeps replicas on nodes that carry every label they select and meet one term of their node affinity."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes per label that is absent or different, those of which no term holds, and all if it is barred."""
        for reason in shape.barred:
            yield Refusal(reason, np.ones(len(table), dtype=np.bool_))
        for key, value in shape.selector:
            yield Refusal(f"label {key} is not {value}", ~table.label(key).equal_to(value))
        if len(shape.affinity) == 1:
            for requirement in shape.affinity[0]:
                yield Refusal(f"it does not hold that {requirement}", ~_meets(table, requirement))
        elif shape.affinity:
            suited = np.logical_or.reduce([holds(table, term) for term in shape.affinity])
            yield Refusal(f"none of its {len(shape.affinity)} terms of node affinity holds", ~suited)


class TaintToleration:
    """Keeps replicas off tainted nodes unless they tolerate the taint."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes per taint that no toleration matches."""
        for taint, carriers in table.taints():
            if not any(toleration.tolerates(taint) for toleration in shape.tolerations):
                named = f"{taint.key}={taint.value}" if taint.value else taint.key
                yield Refusal(f"taint {named} is not tolerated", carriers)


class GpuType:
    """Keeps replicas that name GPU types, or their memory, on nodes that have such."""

    def refuse(self, table: NodeTable, shape: Shape) -> Iterable[Refusal]:
        """Refuse nodes of any other type, and with smaller GPUs."""
        if shape.gpu_types:
            wanted = np.zeros(len(table), dtype=np.bool_)
            for name in shape.gpu_types:
                wanted |= table.gpu_type.equal_to(name)
            yield Refusal(f"GPU type is not {' or '.join(shape.gpu_types)}", ~wanted)
        if memory := shape.amount(GPU_MEMORY):
            yield Refusal(f"no GPU with {memory} MiB memory", table.gpu_memory < memory)


def holds(table: NodeTable, term: NodeTerm) -> Bools:
    """Which nodes meet every requirement of a term."""
    return np.asarray(np.logical_and.reduce([_meets(table, requirement) for requirement in term]))


def _meets(table: NodeTable, requirement: NodeRequirement) -> Bools:
    """Which nodes meet a requirement, by Kubernetes' rules: a label that is absent is not in any list."""
    labels = table.level("node") if requirement.key == NODE_NAME else table.label(requirement.key)
    match requirement.operator:
        case Match.IN:
            return _carry(labels, requirement.values)
        case Match.NOT_IN:
            return ~_carry(labels, requirement.values)
        case Match.EXISTS:
            return np.asarray(labels.ids != ABSENT)
        case Match.DOES_NOT_EXIST:
            return np.asarray(labels.ids == ABSENT)
        case Match.ABOVE | Match.BELOW:
            return _carry(labels, [name for name in labels.names if requirement.compares(name)])


def _carry(labels: Interned, values: Iterable[str]) -> Bools:
    wanted = [number for number, name in enumerate(labels.names) if name in set(values)]
    return np.isin(labels.ids, wanted)
