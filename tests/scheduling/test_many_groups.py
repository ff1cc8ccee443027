"""Room for gangs of many groups: what is looked at does not grow with everything that could make room."""

import pytest

from gangline.model import Job, Node, Within
from gangline.scheduling.placement.placer import Placer
from gangline.scheduling.preemption import plan
from tests.scheduling.builders import cycle, job, nodes, role, running

GROUPS, EACH = 10, 30


def full_racks() -> tuple[list[Node], list[Job]]:
    """Twenty racks of four nodes, full of single replicas."""
    machines = nodes(80, racks=4)
    return machines, [
        running(job(f"x{node.name}-{k}", priority=10), {str(node.name): 1}) for node in machines for k in range(8)
    ]


def stages() -> Job:
    return job("stages", role(GROUPS * EACH, groups=GROUPS, within=(Within("rack"),)))


def test_a_gang_of_many_groups_is_placed_a_few_times_to_find_out_who_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[object] = []
    place = Placer.place

    def counted(self: Placer, *args: object, **more: object) -> object:
        placed.append(self)
        return place(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Placer, "place", counted)
    machines, held = full_racks()
    decision = cycle(machines, [*held, stages()])
    assert len(decision.evictions) == GROUPS * EACH, "as many as it needs, and no more"
    assert len(placed) < GROUPS * EACH, "not once for each of them"


def test_when_trials_are_used_up_whoever_has_room_beside_the_place_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "TRIALS", 0)
    machines, held = full_racks()
    dear = running(job("dear", role(6), priority=20), {"n0": 2, "n1": 2, "n2": 2})
    held = [each for each in held if each.replicas[0].node not in ("n0", "n1", "n2")]
    decision = cycle(machines, [*held, dear, stages()])
    gone = {str(each.job_id) for each in decision.evictions}
    assert "dear" not in gone, "eighteen seats beside it are free already"
    assert len(gone) <= GROUPS * EACH
