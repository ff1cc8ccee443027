"""Which gangs start and where: the specification of placement, one scenario a line or two."""

import pytest

from gangline.model import Phase, Prefer, ReplicaState, Resources, RoleSpec, Toleration
from gangline.scheduling import Constraint, Policies
from gangline.scheduling.plugins.scores import Spread
from tests.scheduling.builders import NOW, Scenario, job, node, nodes, role, running, taint

RESOURCES = Constraint.RESOURCES
NODES = Constraint.NODES
TOO_LARGE = Constraint.TOO_LARGE
TOPOLOGY = Constraint.TOPOLOGY


def idle(replicas: int) -> RoleSpec:
    """Replicas that ask for nothing."""
    return role(replicas, gpus=0, cpus=0, memory=0)


GANGS = [
    Scenario("nothing to do", nodes(2), []),
    Scenario("no nodes at all", [], [job("a")], waits={"a": NODES}),
    Scenario("one replica", nodes(1), [job("a")], starts={"a": {"n0": 1}}),
    Scenario("a gang over two nodes", nodes(2), [job("a", role(12))], starts={"a": {"n0": 8, "n1": 4}}),
    Scenario("a gang that is one replica too large", nodes(2), [job("a", role(17))], waits={"a": TOO_LARGE}),
    Scenario(
        "a gang waits whole when one replica does not fit",
        nodes(2),
        [running(job("x", role(1)), {"n0": 1}), job("a", role(16), priority=50)],
        waits={"a": RESOURCES},
    ),
    Scenario(
        "two gangs that fit alone but not together: the older one starts whole",
        nodes(2),
        [job("young", role(10), age=1), job("old", role(10), age=2)],
        starts={"old": 10},
        waits={"young": RESOURCES},
    ),
    Scenario(
        "priority before age",
        nodes(1),
        [job("old", role(8), age=9), job("urgent", role(8), priority=90, age=1)],
        starts={"urgent": 8},
        waits={"old": RESOURCES},
    ),
    Scenario(
        "equal priority and age: the id decides",
        nodes(1),
        [job("b", role(8)), job("a", role(8))],
        starts={"a": 8},
        waits={"b": RESOURCES},
    ),
    Scenario(
        "several shapes in one gang",
        nodes(2),
        [job("a", role(2, name="ps", gpus=0, cpus=4), role(8, gpus=2))],
        starts={"a": 10},
    ),
    Scenario(
        "a small role that fits does not carry a large one that does not",
        nodes(1),
        [job("a", role(1, name="ps", gpus=0), role(9))],
        waits={"a": TOO_LARGE},
    ),
    Scenario(
        "roles that fit alone but not together",
        nodes(1),
        [job("a", role(5, name="chief"), role(5))],
        waits={"a": TOO_LARGE},
    ),
    Scenario(
        "roles that only fit in one mixture",
        [node("n0", gpus=4, cpus=4), node("n1", gpus=3, cpus=8)],
        [job("a", role(1, name="chief", gpus=3), role(2, gpus=1, cpus=4))],
        starts={"a": {"n0": 1, "n1": 2}},
    ),
    Scenario("the gang's processor counts", nodes(1, cpus=4), [job("a", role(5, gpus=0))], waits={"a": TOO_LARGE}),
    Scenario("the gang's memory counts", nodes(1, memory=10), [job("a", role(2, memory=6))], waits={"a": TOO_LARGE}),
    Scenario("pods count", nodes(1, pods=3), [job("a", role(4, gpus=0))], waits={"a": TOO_LARGE}),
    Scenario(
        "foreign pods count", nodes(1, pods=3, foreign_pods=1), [job("a", role(3, gpus=0))], waits={"a": TOO_LARGE}
    ),
    Scenario(
        "an extended resource counts",
        [node("n0", extended={"rdma": 2})],
        [job("a", role(3, extended={"rdma": 1}))],
        waits={"a": TOO_LARGE},
    ),
    Scenario(
        "an extended resource goes where it is",
        [node("n0"), node("n1", extended={"rdma": 2})],
        [job("a", role(2, extended={"rdma": 1}))],
        starts={"a": {"n1": 2}},
    ),
    Scenario("a resource that no node has", nodes(2), [job("a", role(1, extended={"tpu": 1}))], waits={"a": NODES}),
    Scenario(
        "what others use is not ours",
        [node("n0", foreign=Resources(gpu_millis=6000))],
        [job("a", role(3))],
        waits={"a": TOO_LARGE},
    ),
    Scenario(
        "a GPU that others use in part is not ours",
        [node("n0", gpus=2, foreign=Resources(gpu_millis=200))],
        [job("a", role(2))],
        waits={"a": TOO_LARGE},
    ),
    Scenario("a node that is not ready", [node("n0", ready=False), node("n1")], [job("a")], starts={"a": {"n1": 1}}),
    Scenario("a cordoned node", [node("n0", cordoned=True), node("n1")], [job("a")], starts={"a": {"n1": 1}}),
    Scenario("only unusable nodes", [node("n0", ready=False)], [job("a")], waits={"a": NODES}),
    Scenario(
        "replicas on a cordoned node still occupy it",
        [node("n0", cordoned=True), node("n1")],
        [running(job("x", role(8)), {"n0": 8}), job("a", role(8))],
        starts={"a": {"n1": 8}},
    ),
    Scenario("a job in back-off waits", nodes(1), [job("a", retry_at=NOW + 5)], waits={"a": Constraint.BACKING_OFF}),
    Scenario("a back-off that is over", nodes(1), [job("a", retry_at=NOW)], starts={"a": 1}),
    Scenario("a job that is halted does not matter", nodes(1), [job("a", phase=Phase.HALTED)]),
    Scenario("a job that is resumed starts", nodes(1), [job("a", phase=Phase.RESUMED)], starts={"a": 1}),
    Scenario("a job that restarts starts", nodes(1), [job("a", phase=Phase.RESTARTING)], starts={"a": 1}),
    Scenario(
        "a replica that ended gives its share back",
        nodes(1, gpus=2),
        [running(job("x", role(2)), {"n0": 2}, states={1: ReplicaState.SUCCEEDED}), job("a")],
        starts={"a": 1},
    ),
    Scenario(
        "a replica in back-off keeps its share",
        nodes(1, gpus=2),
        [running(job("x", role(2)), {"n0": 2}, states={1: ReplicaState.BACKING_OFF}), job("a")],
        waits={"a": RESOURCES},
    ),
    Scenario(
        "a replica on a node that is gone occupies nothing",
        nodes(1, gpus=2),
        [running(job("x", role(2)), {"gone": 2}), job("a", role(2))],
        starts={"a": 2},
    ),
    Scenario(
        "a gang on its way out still occupies its nodes, and the next in line waits for it",
        nodes(1),
        [running(job("x", role(8)), {"n0": 8}, phase=Phase.HALTING), job("a", role(8))],
        waits={"a": Constraint.MAKING_ROOM},
    ),
    Scenario(
        "ten small gangs in one cycle",
        nodes(2),
        [job(f"j{i}", role(1)) for i in range(10)],
        starts={f"j{i}": 1 for i in range(10)},
    ),
]

PACKING = [
    Scenario(
        "pack: the fullest node that has room",
        nodes(2),
        [running(job("x", role(4)), {"n1": 4}), job("a", role(2))],
        starts={"a": {"n1": 2}},
    ),
    Scenario(
        "pack: as few nodes as possible even if an emptier one must be opened",
        nodes(3),
        [running(job("x", role(6)), {"n0": 6}), running(job("y", role(6)), {"n1": 6}), job("a", role(4))],
        starts={"a": {"n2": 4}},
    ),
    Scenario(
        "pack: the rest goes where it fits most tightly",
        nodes(3),
        [running(job("x", role(6)), {"n1": 6}), job("a", role(10))],
        starts={"a": {"n0": 8, "n1": 2}},
    ),
    Scenario(
        "pack: replicas without a GPU keep away from free GPUs",
        [node("n0"), node("cpu", gpus=0)],
        [job("a", role(3, gpus=0))],
        starts={"a": {"cpu": 3}},
    ),
    Scenario(
        "pack: replicas without a GPU go to GPU nodes when they must",
        [node("n0", cpus=8), node("cpu", gpus=0, cpus=2)],
        [job("a", role(3, gpus=0))],
        starts={"a": {"n0": 3}},
    ),
    Scenario(
        "spread: one on each node",
        nodes(4),
        [job("a", role(4), prefer=Prefer.SPREAD)],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1, "n3": 1}},
    ),
    Scenario(
        "spread: the emptiest node first",
        nodes(2),
        [running(job("x", role(4)), {"n0": 4}), job("a", role(1), prefer=Prefer.SPREAD)],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "spread: evenly, as far as there is room",
        nodes(2),
        [running(job("x", role(7)), {"n0": 7}), job("a", role(5), prefer=Prefer.SPREAD)],
        starts={"a": {"n0": 1, "n1": 4}},
    ),
    Scenario(
        "spread: an uneven number",
        nodes(3),
        [job("a", role(5), prefer=Prefer.SPREAD)],
        starts={"a": {"n0": 2, "n1": 2, "n2": 1}},
    ),
    Scenario(
        "spread without GPUs prefers nodes without GPUs",
        [node("cpu0", gpus=0), node("cpu1", gpus=0), node("n0")],
        [job("a", role(1, gpus=0), prefer=Prefer.SPREAD)],
        starts={"a": {"cpu0": 1}},
    ),
    Scenario(
        "replicas that ask for nothing: one on each node",
        nodes(3, gpus=0),
        [job("a", idle(3))],
        starts={"a": {"n0": 1, "n1": 1, "n2": 1}},
    ),
    Scenario(
        "and where the fewest others are, whoever those belong to",
        [node("n0", gpus=0, foreign_pods=3), node("n1", gpus=0), node("n2", gpus=0, foreign_pods=2)],
        [running(job("x", idle(1)), {"n1": 1}), *(job(f"j{i}", idle(1), age=9 - i) for i in range(3))],
        starts={"j0": {"n1": 1}, "j1": {"n1": 1}, "j2": {"n2": 1}},
    ),
    Scenario(
        "and not among free GPUs",
        [node("n0"), node("n1", gpus=0, foreign_pods=9)],
        [job("a", idle(1))],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "unless their user wants them together",
        nodes(3, gpus=0),
        [job("a", idle(3), prefer=Prefer.PACK)],
        starts={"a": {"n0": 3}},
    ),
    Scenario(
        "the score can be replaced",
        nodes(2),
        [running(job("x", role(4)), {"n1": 4}), job("a")],
        policies=Policies(pack=Spread()),
        starts={"a": {"n0": 1}},
    ),
]

RULES = [
    Scenario(
        "a selector",
        [node("n0"), node("n1", labels={"zone": "b"})],
        [job("a", selector={"zone": "b"})],
        starts={"a": {"n1": 1}},
    ),
    Scenario(
        "a selector of two labels needs both",
        [node("n0", labels={"zone": "b"}), node("n1", labels={"zone": "b", "disk": "ssd"})],
        [job("a", selector={"zone": "b", "disk": "ssd"})],
        starts={"a": {"n1": 1}},
    ),
    Scenario("a selector that nothing matches", nodes(2), [job("a", selector={"zone": "b"})], waits={"a": NODES}),
    Scenario(
        "a selector with another value",
        [node("n0", labels={"zone": "a"})],
        [job("a", selector={"zone": "b"})],
        waits={"a": NODES},
    ),
    Scenario("a taint", [node("n0", taints=(taint("team", "x"),)), node("n1")], [job("a")], starts={"a": {"n1": 1}}),
    Scenario(
        "a taint that is only a preference",
        [node("n0", taints=(taint("team", "x", "PreferNoSchedule"),))],
        [job("a")],
        starts={"a": 1},
    ),
    Scenario(
        "a tolerated taint",
        [node("n0", taints=(taint("team", "x"),))],
        [job("a", tolerations=[Toleration(key="team", value="x")])],
        starts={"a": 1},
    ),
    Scenario(
        "a toleration with another value",
        [node("n0", taints=(taint("team", "x"),))],
        [job("a", tolerations=[Toleration(key="team", value="y")])],
        waits={"a": NODES},
    ),
    Scenario(
        "a toleration of another key",
        [node("n0", taints=(taint("team", "x"),))],
        [job("a", tolerations=[Toleration(key="crew", value="x")])],
        waits={"a": NODES},
    ),
    Scenario(
        "a toleration that only asks for the key",
        [node("n0", taints=(taint("team", "x"),))],
        [job("a", tolerations=[Toleration(key="team", operator="Exists")])],
        starts={"a": 1},
    ),
    Scenario(
        "a toleration of everything",
        [node("n0", taints=(taint("team", "x", "NoExecute"),))],
        [job("a", tolerations=[Toleration(operator="Exists")])],
        starts={"a": 1},
    ),
    Scenario(
        "a toleration of another effect",
        [node("n0", taints=(taint("team", "x", "NoExecute"),))],
        [job("a", tolerations=[Toleration(key="team", value="x", effect="NoSchedule")])],
        waits={"a": NODES},
    ),
    Scenario(
        "two taints need two tolerations",
        [node("n0", taints=(taint("a"), taint("b")))],
        [job("a", tolerations=[Toleration(key="a", operator="Exists")])],
        waits={"a": NODES},
    ),
    Scenario("a GPU type", [node("n0"), node("n1", kind="h200")], [job("a", kinds=["h200"])], starts={"a": {"n1": 1}}),
    Scenario("a GPU type that is not there", nodes(1), [job("a", kinds=["h200"])], waits={"a": NODES}),
    Scenario(
        "the first preferred GPU type that has room for all",
        [node("n0"), node("n1", kind="h200", gpus=2)],
        [job("a", role(4), kinds=["h200", "a100"])],
        starts={"a": {"n0": 4}},
    ),
    Scenario(
        "GPU types are mixed only when no single one has room",
        [node("n0", gpus=2), node("n1", kind="h200", gpus=2)],
        [job("a", role(4), kinds=["h200", "a100"])],
        starts={"a": {"n0": 2, "n1": 2}},
    ),
    Scenario(
        "a GPU type does not bind roles without a GPU",
        [node("cpu", gpus=0), node("n1", kind="h200")],
        [job("a", role(1, name="ps", gpus=0), role(1), kinds=["h200"])],
        starts={"a": {"cpu": 1, "n1": 1}},
    ),
]

FRACTIONS = [
    Scenario("two halves share a GPU", nodes(1, gpus=1), [job("a", role(2, gpus=0.5))], starts={"a": 2}),
    Scenario("three halves do not", nodes(1, gpus=1), [job("a", role(3, gpus=0.5))], waits={"a": TOO_LARGE}),
    Scenario(
        "parts of different GPUs do not add up",
        nodes(1, gpus=2),
        [running(job("x", role(2, gpus=0.6)), {"n0": 2}), job("a", role(1, gpus=0.8), priority=1)],
        waits={"a": RESOURCES},
    ),
    Scenario(
        "a whole GPU needs one that nobody shares",
        nodes(1, gpus=2),
        [running(job("x", role(1, gpus=0.1)), {"n0": 1}), job("a", role(2), priority=1)],
        waits={"a": RESOURCES},
    ),
    Scenario(
        "a part goes to a GPU that is shared already",
        nodes(1, gpus=2),
        [running(job("x", role(1, gpus=0.5)), {"n0": 1}), job("a", role(1, gpus=0.5)), job("b", role(1), age=1)],
        starts={"a": 1, "b": 1},
    ),
    Scenario("one and a half GPUs", nodes(1, gpus=2), [job("a", role(1, gpus=1.5))], starts={"a": 1}),
    Scenario("twice one and a half GPUs need three", nodes(1, gpus=3), [job("a", role(2, gpus=1.5))], starts={"a": 2}),
    Scenario(
        "twice one and a half GPUs on two", nodes(1, gpus=2), [job("a", role(2, gpus=1.5))], waits={"a": TOO_LARGE}
    ),
    Scenario("two of 0.6 need two GPUs", nodes(1, gpus=1), [job("a", role(2, gpus=0.6))], waits={"a": TOO_LARGE}),
    Scenario(
        "parts on several nodes",
        nodes(3, gpus=1),
        [job("a", role(6, gpus=0.5))],
        starts={"a": {"n0": 2, "n1": 2, "n2": 2}},
    ),
]

TOPOLOGIES = [
    Scenario(
        "within one rack",
        nodes(4, racks=2),
        [running(job("x", role(1)), {"n0": 1}), job("a", role(16), within="rack")],
        starts={"a": {"n2": 8, "n3": 8}},
    ),
    Scenario(
        "the tightest rack that fits",
        nodes(4, racks=2),
        [running(job("x", role(8)), {"n2": 8}), job("a", role(8), within="rack")],
        starts={"a": {"n3": 8}},
    ),
    Scenario("no rack is large enough", nodes(4, racks=2), [job("a", role(17), within="rack")], waits={"a": TOO_LARGE}),
    Scenario(
        "no rack has room now",
        nodes(4, racks=2),
        [
            running(job("x", role(8)), {"n0": 8}),
            running(job("y", role(8)), {"n2": 8}),
            job("a", role(16), within="rack", priority=1),
        ],
        waits={"a": TOPOLOGY},
    ),
    Scenario(
        "a preferred rack is left when none has room",
        nodes(4, racks=2),
        [job("a", role(20), within="rack", required=False)],
        starts={"a": 20},
    ),
    Scenario(
        "a preferred rack is kept when one has room",
        nodes(4, racks=2),
        [running(job("x", role(4)), {"n0": 4}), job("a", role(16), within="rack", required=False)],
        starts={"a": {"n2": 8, "n3": 8}},
    ),
    Scenario("within one node", nodes(2), [job("a", role(9), within="node")], waits={"a": TOO_LARGE}),
    Scenario(
        "within one node that has room",
        nodes(2),
        [running(job("x", role(2)), {"n0": 2}), job("a", role(8), within="node")],
        starts={"a": {"n1": 8}},
    ),
    Scenario("within a level that nobody knows", nodes(2), [job("a", within="moon")], waits={"a": NODES}),
    Scenario(
        "nodes outside any rack are no rack",
        [node("n0"), node("n1", topology={"rack": "r"})],
        [job("a", role(8), within="rack")],
        starts={"a": {"n1": 8}},
    ),
    Scenario(
        "all roles within the same rack",
        nodes(4, racks=2, cpus=9),
        [running(job("x", role(1, gpus=0)), {"n0": 1}), job("a", role(2, name="ps", gpus=0), role(16), within="rack")],
        starts={"a": {"n2": 9, "n3": 9}},
    ),
    Scenario(
        "a rack for each of two gangs",
        nodes(4, racks=2),
        [job("a", role(16), within="rack"), job("b", role(16), within="rack", age=1)],
        starts={"a": 16, "b": 16},
    ),
]


@pytest.mark.parametrize(
    "scenario",
    [*GANGS, *PACKING, *RULES, *FRACTIONS, *TOPOLOGIES],
    ids=lambda scenario: scenario.id,
)
def test_a_gang_is_placed_whole_and_where_its_policy_prefers(scenario: Scenario) -> None:
    scenario.check()
