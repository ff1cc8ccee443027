"""Roles that differ in importance: who is trimmed first, and who never is."""

import pytest

from gangline.model import Job
from tests.scheduling.builders import Scenario, job, nodes, role, running


def trimmed(
    *, chief: bool | None = False, worker: int | None = None, evaluator: int | None = 25, **more: object
) -> Job:
    """A gang of a chief, four workers of which it can do without two, and two evaluators that it need not have."""
    each = job(
        "gang",
        role(1, name="chief", preemptible=chief),
        role(4, minimum=2, priority=worker),
        role(2, name="evaluator", minimum=0, priority=evaluator),
    )
    return running(each, {"chief": {"n0": 1}, "worker": {"n0": 4}, "evaluator": {"n0": 2}})


FULL = nodes(1, gpus=7)
CASES = [
    Scenario(
        "the least important role first",
        FULL,
        [trimmed(), job("a", role(1))],
        waits={"a": "making-room"},
        shrinks={"gang": ["evaluator-1"]},
    ),
    Scenario(
        "then the next",
        FULL,
        [trimmed(), job("a", role(3))],
        waits={"a": "making-room"},
        shrinks={"gang": ["evaluator-0", "evaluator-1", "worker-3"]},
    ),
    Scenario(
        "a less important job gets what is less important still",
        FULL,
        [trimmed(), job("a", role(2), priority=30)],
        waits={"a": "making-room"},
        shrinks={"gang": ["evaluator-0", "evaluator-1"]},
    ),
    Scenario(
        "and no more than that",
        FULL,
        [trimmed(), job("a", role(3), priority=30)],
        waits={"a": "resources"},
    ),
    Scenario(
        "without a priority of its own, a role is as important as its job",
        FULL,
        [trimmed(evaluator=None), job("a", role(1), priority=30)],
        waits={"a": "resources"},
    ),
    Scenario(
        "no role is more important than its job",
        FULL,
        [trimmed(worker=90), job("a", role(3))],
        waits={"a": "making-room"},
        shrinks={"gang": ["evaluator-0", "evaluator-1", "worker-3"]},
    ),
    Scenario(
        "a gang whose chief may not be stopped is trimmed and never stopped",
        FULL,
        [trimmed(), job("a", role(7), priority=100)],
        waits={"a": "resources"},
    ),
    Scenario(
        "a gang whose chief may be is stopped",
        FULL,
        [trimmed(chief=None), job("a", role(7), priority=100)],
        waits={"a": "making-room"},
        evicts={"gang": "a"},
    ),
    Scenario(
        "of a job that may not be stopped, a role that may be is trimmed",
        FULL,
        [
            running(
                job("gang", role(4, minimum=1, preemptible=True), role(2, name="ps", minimum=1), preemptible=False),
                {"worker": {"n0": 4}, "ps": {"n0": 2}},
            ),
            job("a", role(3), priority=100),
        ],
        waits={"a": "making-room"},
        shrinks={"gang": ["worker-2", "worker-3"]},
    ),
    Scenario(
        "what is free goes to the most important role",
        nodes(1, gpus=5),
        [
            running(
                job("gang", role(2, name="evaluator", minimum=0, priority=10), role(4, minimum=2)),
                {"worker": {"n0": 3}},
            )
        ],
        grows={"gang": ["evaluator-0", "worker-3"]},
    ),
]


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.id)
def test_roles_are_given_up_by_their_importance(scenario: Scenario) -> None:
    scenario.check()
