"""Scenarios as a specification: replicas that have ended while their nodes have not released what they held."""

from dataclasses import replace

import pytest

from gangline.model import Job, Phase, ReplicaState
from gangline.scheduling import Constraint, terminating_gang
from tests.scheduling.builders import Scenario, cycle, job, nodes, queue, role, running


def ended(name: str, on: str, *roles: object) -> list[Job]:
    """A job that has completed, with its one replica still on a node."""
    held = running(job(name, *roles), {on: 1})
    return [
        running(job(name, *roles), {on: 1}, phase=Phase.COMPLETED, states={0: ReplicaState.SUCCEEDED}),
        terminating_gang(held, held.replicas),
    ]


def shrunk(name: str, left: dict[str, int], going: dict[str, int]) -> list[Job]:
    """An elastic job that gave up a replica which still runs."""
    elastic = job(name, role(2, minimum=1, maximum=2), priority=10)
    gone = running(elastic, going).replicas[0]
    return [running(elastic, left), terminating_gang(running(elastic, left), [gone])]


SCENARIOS = [
    Scenario(
        "nobody starts where a replica has ended but is not gone",
        nodes(1, gpus=1),
        [*ended("x", "n0"), job("j")],
        waits={"j": Constraint.TERMINATING},
    ),
    Scenario(
        "a place that is free is taken at once",
        nodes(2, gpus=1),
        [*ended("x", "n0"), job("j")],
        starts={"j": {"n1": 1}},
    ),
    Scenario(
        "nobody is stopped for what is about to be free",
        nodes(2, gpus=1),
        [*ended("x", "n0"), running(job("low", priority=1), {"n1": 1}), job("j")],
        waits={"j": Constraint.TERMINATING},
    ),
    Scenario(
        "the place is the first one's, and the next is told what else it lacks",
        nodes(1, gpus=1),
        [*ended("x", "n0"), job("j", age=2.0), job("k", age=1.0)],
        waits={"j": Constraint.TERMINATING, "k": Constraint.RESOURCES},
    ),
    Scenario(
        "an elastic gang does not grow back into what it gives up for another",
        nodes(2, gpus=1),
        [*shrunk("x", {"n0": 1}, {"n1": 1}), job("j")],
        waits={"j": Constraint.TERMINATING},
    ),
    Scenario(
        "a queue does not pay for what has ended",
        nodes(2, gpus=1),
        [*ended("x", "n0"), job("j")],
        queues=[queue("default", limit={"gpus": 1})],
        starts={"j": {"n1": 1}},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_terminating_replicas(scenario: Scenario) -> None:
    scenario.check()


def test_whoever_waits_is_told_whose_end_it_waits_for() -> None:
    why = cycle(nodes(1, gpus=1), [*ended("x", "n0"), job("j")]).explanations["j"]
    assert why.holders == ("x",)
    assert why.words()[0] == "It waits for its nodes to release what others held there."


def test_the_place_is_given_once_it_is_released() -> None:
    machines, (done, going), waiting = nodes(1, gpus=1), ended("x", "n0"), job("j")
    before = cycle(machines, [done, going, waiting])
    after = cycle(machines, [replace(done, holding=False), waiting], memory=before.memory)
    assert [start.job_id for start in after.starts] == ["j"]
