"""What is said to a waiting gang, word by word where the words were once wrong."""

from dataclasses import replace

import pytest

from gangline.model import Job, JobId, Node, Queue, Resources
from tests.scheduling.builders import cycle, fill, job, node, nodes, queue, role, running

LIMIT_4 = [queue("a", limit={"gpus": 4})]
H100S = [node("n0", kind="h100"), node("n1", kind="a100")]

SAID = [
    pytest.param(
        nodes(1),
        [job("j", role(8), queue="a")],
        LIMIT_4,
        ["It asks for more than queue 'a' may have at all: 8 GPU of at most 4 GPU."],
        ["is at its limit", "It starts when", "It would start"],
        id="larger than the limit itself",
    ),
    pytest.param(
        nodes(1),
        [*fill("x", 2, "n0", queue="a"), job("j", role(4), queue="a")],
        LIMIT_4,
        [
            "Queue 'a' is at its limit.",
            "It starts when jobs of queue 'a' end.",
            "It would start now if the queue were allowed 2 GPU more.",
        ],
        [],
        id="at the limit, and the nodes have room",
    ),
    pytest.param(
        nodes(1),
        [*fill("x", 2, "n0", queue="a"), *fill("y", 6, "n0", queue="b"), job("j", role(4), queue="a")],
        [*LIMIT_4, queue("b", guarantee={"gpus": 8})],
        ["Queue 'a' is at its limit."],
        ["It starts when jobs", "It would start now"],
        id="at the limit, and others have the nodes",
    ),
    pytest.param(
        [replace(nodes(1)[0], foreign=Resources(gpu_millis=1000), closed_gpus={"3": "uncorrected ECC errors: 2"})],
        [job("j", role(8))],
        [],
        ["GPU 3 of n0 is closed: uncorrected ECC errors: 2."],
        ["It would start now"],
        id="a GPU is closed",
    ),
    pytest.param(
        nodes(4, racks=2, gpus=2),
        [
            *fill("x", 1, "n0", preemptible=False),
            *fill("y", 2, "n2", preemptible=False),
            job("j", role(4), within="rack"),
        ],
        [],
        ["No single rack has room for all of it: 3 of the 4 'worker' replicas that it needs fit now in the best one."],
        [],
        id="the best rack is the one with most room",
    ),
    pytest.param(
        nodes(2, gpus=4),
        [*fill("x", 1, "n0"), *fill("y", 1, "n1"), job("j", role(1, gpus=4), preemptible=False)],
        [],
        ["Missing: 1 GPU."],
        [],
        id="one node must have all of it",
    ),
    pytest.param(
        nodes(4, racks=2, gpus=2),
        [*fill("x", 2, "n0"), *fill("y", 1, "n2"), job("j", role(4), within="rack")],
        [],
        ["Missing: 1 GPU."],
        [],
        id="one rack must have all of it",
    ),
    pytest.param(
        nodes(2),
        [job("j", role(2), within="rack")],
        [],
        ["No node may run its 'worker' replicas.", "2 of 2 nodes: in no rack."],
        ["Not enough"],
        id="no node has racks",
    ),
    pytest.param(
        nodes(2, gpus=4),
        [job("j", role(1, gpus=8))],
        [],
        ["Each 'worker' replica needs 8 GPU; the largest node that it may use has 4 GPU."],
        [],
        id="no node is large enough",
    ),
    pytest.param(
        H100S,
        [job("j", kinds=["h10"])],
        [],
        ["No node has GPU type 'h10'; did you mean 'h100'?"],
        ["Missing"],
        id="a GPU type with a slip of the pen",
    ),
    pytest.param(
        H100S,
        [job("j", kinds=["tpu"])],
        [],
        ["No node has GPU type 'tpu'; there are a100 and h100."],
        ["did you mean"],
        id="a GPU type that is like no other",
    ),
    pytest.param(
        nodes(1),
        [*fill("x", 8, "n0", queue="b", preemptible=False), job("j", role(2), queue="a")],
        [queue("a", guarantee={"gpus": 4}), queue("b")],
        ["Queue 'a' has 0 GPU of the 4 GPU that it is guaranteed."],
        [],
        id="a queue below its guarantee",
    ),
    pytest.param(
        nodes(1),
        [*fill("x", 8, "n0", queue="b", preemptible=False), job("j", role(5), queue="a")],
        [queue("a", guarantee={"gpus": 4}), queue("b")],
        [],
        ["guaranteed"],
        id="a gang beyond the guarantee of its queue",
    ),
]


@pytest.mark.parametrize(("machines", "jobs", "queues", "said", "unsaid"), SAID)
def test_what_is_said_is_so(
    machines: list[Node], jobs: list[Job], queues: list[Queue], said: list[str], unsaid: list[str]
) -> None:
    sentences = cycle(machines, jobs, queues).explanations[JobId("j")].words()
    assert [each for each in said if each not in sentences] == []
    assert [each for each in unsaid if each in " ".join(sentences)] == []


def test_a_gang_of_several_nodes_misses_what_each_of_them_is_short_of() -> None:
    jobs = [running(job("x", role(2, gpus=1)), {"n0": 1, "n1": 1}), job("j", role(2, gpus=4))]
    assert cycle(nodes(2, gpus=4), jobs).explanations[JobId("j")].missing == {"gpu_millis": 2000}
