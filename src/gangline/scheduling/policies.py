"""The rules and numbers of one scheduler, chosen by name in settings.

Every rule is a plugin (see ``plugins.interface``). A name is one of ``BUILT_IN`` or ``package.module:Class`` for a
rule of your own; the class is called without arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from gangline.errors import InvalidInputError
from gangline.scheduling.plugins.costs import WorkLost
from gangline.scheduling.plugins.filters import GpuType, NodeHealth, SelectorMatch, TaintToleration
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.interface import Filter, JobOrder, QueueOrder, Score, VictimCost
from gangline.scheduling.plugins.orders import DominantShare, LeastAttained, PriorityThenAge, ShortestFirst
from gangline.scheduling.plugins.scores import Pack, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """How to decide.

    A gang that runs is left alone for ``minimum_run_seconds``. After a gang has waited ``patience_seconds`` nothing
    passes it on nodes that it could use. ``usage_half_life_seconds`` makes past use count against a queue.
    """

    job_order: JobOrder = field(default_factory=PriorityThenAge)
    queue_order: QueueOrder = field(default_factory=DominantShare)
    filters: tuple[Filter, ...] = field(
        default_factory=lambda: (NodeHealth(), SelectorMatch(), TaintToleration(), GpuType())
    )
    pack: Score = field(default_factory=Pack)
    spread: Score = field(default_factory=Spread)
    victim_cost: VictimCost = field(default_factory=WorkLost)
    preemption: bool = True
    reclaim: bool = True
    defragmentation: bool = True
    reservation: bool = True
    minimum_run_seconds: float = 60.0
    patience_seconds: float = 6 * 3600.0
    usage_half_life_seconds: float | None = None


DEFAULT_POLICIES = Policies()

BUILT_IN: Mapping[str, type[Any]] = {
    "priority-then-age": PriorityThenAge,
    "shortest-first": ShortestFirst,
    "least-attained": LeastAttained,
    "dominant-share": DominantShare,
    "pack": Pack,
    "spread": Spread,
    "fragmentation": FragmentationGradient,
    "work-lost": WorkLost,
    "node-health": NodeHealth,
    "selector-match": SelectorMatch,
    "taint-toleration": TaintToleration,
    "gpu-type": GpuType,
}
"""Every plugin that comes with Gangline, by the name that settings use."""


def policies_from(settings: Mapping[str, Any]) -> Policies:
    """Build policies from plain settings: names for rules, a list of names for filters, else numbers and flags."""
    known = {each.name for each in fields(Policies)}
    chosen: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise InvalidInputError(
                f"'{name}' is no scheduling setting",
                field="scheduling",
                expected=f"one of {', '.join(sorted(known))}",
                suggestion=next(iter(get_close_matches(name, known, n=1)), None),
            )
        if name == "filters":
            chosen[name] = tuple(_plugin(each) for each in value)
        else:
            chosen[name] = _plugin(value) if isinstance(value, str) else value
    return Policies(**chosen)


def _plugin(name: str) -> object:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    module, _, attribute = name.partition(":")
    if not attribute:
        raise InvalidInputError(
            f"there is no scheduling plugin '{name}'",
            field="scheduling",
            expected="a built-in name or package.module:Class",
            suggestion=next(iter(get_close_matches(name, BUILT_IN, n=1)), None),
        )
    return getattr(import_module(module), attribute)()
