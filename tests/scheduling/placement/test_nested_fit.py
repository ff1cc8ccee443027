"""Many groups in domains of their own: placed and refused by counting, not by trying one choice after the other."""

from collections.abc import Sequence

import pytest

from gangline.model import Job, JobId, Node, RoleSpec, Within
from gangline.scheduling import Constraint
from gangline.scheduling.placement.joint_fit import Effort
from gangline.scheduling.placement.placer import Placer
from tests.scheduling.builders import Scenario, cycle, job, node, role
from tests.scheduling.placement.test_domain_choice import RACK, RATHER_RACK, RATHER_ZONE, ZONE, racks

STEPS = 5_000
"""More than counting needs for forty racks; one choice after the other takes ten times as many or never ends."""


def pairs_of_nodes(count: int) -> list[Node]:
    """Racks of two nodes with two GPUs each."""
    return [node(f"n{i}", gpus=2, topology={"rack": f"r{i // 2}"}) for i in range(2 * count)]


def stages(count: int, size: int, *levels: Within, name: str = "worker") -> RoleSpec:
    return role(count * size, name=name, groups=count, within=levels)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What searches cost from now on, step by step."""
    spent: list[int] = []
    spend = Effort.spend

    def counted(self: Effort, amount: int) -> bool:
        spent.append(amount)
        return spend(self, amount)

    monkeypatch.setattr(Effort, "spend", counted)
    return spent


SMALL_AND_LARGE = job("a", stages(20, 2, RACK, name="small"), stages(21, 3, RACK, name="large"))

REFUSED = [
    ("one more group than racks", racks(*[2] * 40), job("a", stages(41, 2, RACK))),
    ("two groups to a rack, and one more", racks(*[4] * 20), job("a", stages(41, 2, RACK))),
    ("one more group than racks, nested", racks(*[2] * 40, per_zone=4), job("a", stages(41, 2, ZONE, RACK))),
    ("one more group than racks, replicas apart", pairs_of_nodes(40), job("a", stages(41, 2, RACK), apart="node")),
    ("groups of two sizes, each of which would fit", racks(*[3] * 40), SMALL_AND_LARGE),
    (
        "groups of two shapes",
        [node(f"n{i}", gpus=3, topology={"rack": f"r{i // 4}"}) for i in range(80)],
        job("a", stages(40, 3, RACK), role(84, name="other", groups=21, gpus=2, within=(RACK,))),
    ),
]


@pytest.mark.parametrize(("machines", "gang"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_groups_that_do_not_fit_are_refused_in_a_few_steps(
    steps: list[int], machines: Sequence[Node], gang: Job
) -> None:
    decision = cycle(machines, [gang])
    assert decision.explanations[JobId("a")].constraint is Constraint.TOO_LARGE
    assert sum(steps) < STEPS


PREFERRED = [
    ("all preferences are kept", racks(*[2] * 40), stages(40, 2, RATHER_RACK)),
    ("some are given up", racks(*[3] * 41), stages(60, 2, RATHER_RACK)),
    ("some are given up at two levels", racks(*[3] * 10), stages(14, 2, RATHER_ZONE, RATHER_RACK)),
]


@pytest.mark.parametrize(("machines", "role"), [case[1:] for case in PREFERRED], ids=[case[0] for case in PREFERRED])
def test_preferences_of_many_groups_are_weighed_in_a_few_steps(
    steps: list[int], monkeypatch: pytest.MonkeyPatch, machines: Sequence[Node], role: RoleSpec
) -> None:
    tries: list[object] = []
    place = Placer._place_held
    monkeypatch.setattr(Placer, "_place_held", lambda *each: tries.append(each) or place(*each))
    (start,) = cycle(machines, [job("a", role)]).starts
    assert len(start.placement) == role.replicas
    assert sum(steps) < STEPS
    # Once without preferences, once with all; then half of those in question each time.
    assert len(tries) <= 2 + 7


def test_what_is_said_of_groups_of_two_sizes_is_true() -> None:
    # 21 racks for the large ones, 19 for the small ones, and one GPU left over in each of those.
    why = cycle(racks(*[3] * 40), [SMALL_AND_LARGE]).explanations[JobId("a")]
    assert why.words()[0] == "It would not fit even if everything else stopped: 1 of 2 'small/0' replicas would."


CASES = [
    Scenario(
        "a role without a rack takes what the groups leave",
        racks(3, 3, 1),
        [job("a", stages(2, 2, RACK), role(3, name="free"))],
        starts={"a": {"r0": 3, "r1": 3, "r2": 1}},
    ),
    Scenario(
        "a role without a rack may use nodes outside all racks",
        [*racks(2, 2), node("n", gpus=1)],
        [job("a", stages(2, 2, RACK), role(1, name="free"))],
        starts={"a": {"r0": 2, "r1": 2, "n": 1}},
    ),
    Scenario(
        "groups in zones beside groups in racks",
        racks(3, 1, 2, 2),
        [job("a", stages(2, 2, RACK, name="rack"), stages(1, 4, ZONE, name="zone"))],
        starts={"a": {"r0": 3, "r1": 1, "r2": 2, "r3": 2}},
    ),
    Scenario(
        "racks that lie in several zones",
        [
            node(f"n{i}", gpus=2, topology={"rack": rack, "zone": zone})
            for i, (rack, zone) in enumerate([("r0", "z0"), ("r0", "z1"), ("r1", "z1"), ("r1", "z0")])
        ],
        [job("a", stages(1, 4, RACK, name="rack"), stages(2, 2, ZONE, name="zone"))],
        starts={"a": {f"n{i}": 2 for i in range(4)}},
    ),
    Scenario(
        "replicas of a group apart",
        pairs_of_nodes(3),
        [job("a", stages(3, 2, RACK), apart="node")],
        starts={"a": {f"n{i}": 1 for i in range(6)}},
    ),
]


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.id)
def test_groups_are_placed(scenario: Scenario) -> None:
    scenario.check()
