"""The rules and numbers of one scheduler, chosen by name in settings.

Every rule is a plugin (see ``plugins.interface``). A name is one of ``BUILT_IN`` or ``package.module:Class`` for a
rule of your own, which the composition root imports; the class is called without arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from gangline.allocation.sizes import Goodput, MarginalGain
from gangline.errors import InvalidInputError
from gangline.scheduling.plugins.costs import WorkLost
from gangline.scheduling.plugins.filters import GpuType, NodeHealth, SelectorMatch, TaintToleration
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.interface import Filter, JobOrder, QueueOrder, Score, SizePolicy, VictimCost
from gangline.scheduling.plugins.orders import DominantShare, LeastAttained, PriorityThenAge, ShortestFirst
from gangline.scheduling.plugins.scores import Pack, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """How to decide.

    A gang that runs is left alone for ``minimum_run_seconds``. The first in line has its place kept once it has waited
    for ``reserve_after_seconds``; after ``patience_seconds`` nothing new starts on the nodes of that place. With
    ``in_order`` nothing ever passes it on nodes that it could use. ``usage_half_life_seconds`` makes past use count
    against a queue.
    """

    job_order: JobOrder = field(default_factory=LeastAttained)
    queue_order: QueueOrder = field(default_factory=DominantShare)
    filters: tuple[Filter, ...] = field(
        default_factory=lambda: (NodeHealth(), SelectorMatch(), TaintToleration(), GpuType())
    )
    pack: Score = field(default_factory=Pack)
    spread: Score = field(default_factory=Spread)
    victim_cost: VictimCost = field(default_factory=WorkLost)
    sizes: SizePolicy = field(default_factory=Goodput)
    preemption: bool = True
    reclaim: bool = True
    defragmentation: bool = True
    reservation: bool = True
    in_order: bool = False
    minimum_run_seconds: float = 60.0
    reserve_after_seconds: float = 2 * 3600.0
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
    "goodput": Goodput,
    "marginal-gain": MarginalGain,
    "node-health": NodeHealth,
    "selector-match": SelectorMatch,
    "taint-toleration": TaintToleration,
    "gpu-type": GpuType,
}
"""Every plugin that comes with Gangline, by the name that settings use."""


VERBS: Mapping[str, tuple[str, ...]] = {
    "job_order": ("rank", "key"),
    "queue_order": ("key",),
    "filters": ("refuse",),
    "pack": ("score",),
    "spread": ("score",),
    "victim_cost": ("cost",),
    "sizes": ("sizes",),
}
"""The rules that settings may replace, and what a plugin must be able to do for each (see ``plugins.interface``)."""


def policies_from(settings: Mapping[str, object], find: Callable[[str], Callable[[], object]]) -> Policies:
    """Build policies from plain settings: names for rules, a list of names for filters, else numbers and flags.

    ``find`` returns the class of a plugin that is not built in.
    """
    known = {each.name for each in fields(Policies)}
    chosen: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise _refusal(name, f"'{name}' is not a scheduling setting", f"one of {', '.join(sorted(known))}", known)
        chosen[name] = _value(name, value, find)
    return Policies(**chosen)


def _value(name: str, value: object, find: Callable[[str], Callable[[], object]]) -> object:
    if name == "filters":
        if not isinstance(value, list | tuple):
            raise _refusal(name, f"{value!r} is not a list", "a list of plugins")
        return tuple(_plugin(name, each, find) for each in value)
    if name in VERBS:
        return _plugin(name, value, find)
    if isinstance(getattr(DEFAULT_POLICIES, name), bool):
        if not isinstance(value, bool):
            raise _refusal(name, f"{value!r} does not fit", "true or false")
        return value
    # Not ``value < 0``: of something that is not a number, nothing holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise _refusal(name, f"{value!r} does not fit", "a number of seconds")
    if name == "usage_half_life_seconds" and value == 0:
        raise _refusal(name, "nothing has a half-life of 0", "seconds above 0; leave it out to let the past be past")
    return float(value)


def _plugin(setting: str, name: object, find: Callable[[str], Callable[[], object]]) -> object:
    expected = "a built-in name or package.module:Class"
    if isinstance(name, str) and name in BUILT_IN:
        plugin = BUILT_IN[name]()
    elif isinstance(name, str) and ":" in name:
        try:
            plugin = find(name)()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise _refusal(setting, f"the plugin '{name}' cannot be made: {error}", expected) from error
    else:
        raise _refusal(setting, f"there is no scheduling plugin '{name}'", expected, BUILT_IN)
    missing = [verb for verb in VERBS[setting] if not callable(getattr(plugin, verb, None))]
    if missing:
        raise _refusal(setting, f"the plugin '{name}' cannot {' and '.join(missing)}", f"a plugin for {setting}")
    return plugin


def _refusal(setting: str, message: str, expected: str, names: Iterable[str] = ()) -> InvalidInputError:
    wrong = message.split("'")[1] if names else ""
    nearest = next(iter(get_close_matches(wrong, list(names), n=1)), None)
    return InvalidInputError(message, field=f"scheduling.{setting}", expected=expected, suggestion=nearest)
