"""Machines as engines describe them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model.identity import NodeName
from gangline.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps replicas away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine, or one logical part of it.

    ``capacity`` is what Gangline may hand out; ``foreign`` is what others already use of it. ``topology``
    maps a level (for example island, rack, zone) to the domain the node belongs to. ``shares_gpus`` says that several
    replicas may have parts of one GPU; where it is false, whoever asks for a part gets a whole one. ``gpu_memory_mib``
    is the memory of each of its GPUs (0: not known). ``closed_gpus`` are those that nothing is started on, with the
    reason; they are part of ``foreign``.
    """

    name: NodeName
    capacity: Resources
    foreign: Resources = field(default_factory=Resources)
    gpu_type: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    topology: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    cordoned: bool = False
    pods: int = 110
    foreign_pods: int = 0
    shares_gpus: bool = True
    gpu_memory_mib: int = 0
    closed_gpus: Mapping[str, str] = field(default_factory=dict)
