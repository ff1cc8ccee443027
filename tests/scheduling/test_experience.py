"""Placement learns what replicas look like here, and keeps for the choosy what only they can use."""

import pytest

from gangline.model import RoleName
from gangline.scheduling import CycleMemory
from gangline.scheduling.demand.shapes import Demand, RoleDemand, Shape
from gangline.scheduling.experience import REPLICAS_KEPT, SHAPES_KEPT, taught, with_started
from gangline.scheduling.plugins.fragmentation import FragmentationGradient
from gangline.scheduling.plugins.scores import Pack
from gangline.scheduling.policies import Policies
from tests.scheduling.builders import cycle, job, node, role, running


def demand(millis: int, count: int = 1, kinds: tuple[str, ...] = ()) -> Demand:
    shape = Shape(amounts=(("gpu_millis", millis),), gpu_types=kinds)
    return Demand((RoleDemand(RoleName("worker"), shape, count, count),))


def test_a_scarce_type_is_kept_for_those_who_name_it() -> None:
    """Best fit would take the node that is fuller, which is the only one of its type."""
    machines = [node("rare", gpus=4, kind="h200"), node("plain", gpus=8, kind="t4")]
    has_affinity = job("choosy", role(2), kinds=["h200"])
    first = cycle(machines, [has_affinity])
    held = running(has_affinity, {"rare": 2})
    assert first.memory.seen
    learnt = cycle(machines, [held, job("any")], memory=CycleMemory(seen=first.memory.seen))
    restarted = cycle(machines, [held, job("any")])
    for decision in (learnt, restarted):
        assert set(decision.starts[0].placement.values()) == {"plain"}


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        ([demand(1000), demand(8000)], Pack),
        ([demand(500)], FragmentationGradient),
        ([demand(1000, 1, ("h200",))], FragmentationGradient),
    ],
    ids=["whole GPUs of any type", "parts of GPUs", "a type"],
)
def test_packing_is_plain_where_nobody_shares_or_is_choosy(seen: list[Demand], want: type) -> None:
    assert type(taught(Policies(), with_started({}, seen)).pack) is want


def test_what_is_rare_or_long_ago_is_forgotten() -> None:
    many = with_started({}, [demand(1 + i, 2 if i else 1) for i in range(SHAPES_KEPT + 1)])
    assert len(many) == SHAPES_KEPT
    assert demand(1).roles[0].shape not in many
    full = with_started({demand(500).roles[0].shape: REPLICAS_KEPT}, [demand(500)])
    assert list(full.values()) == [(REPLICAS_KEPT + 1) / 2]
