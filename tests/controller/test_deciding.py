"""One job on which the scheduler fails waits alone."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from gangline.controller import deciding
from gangline.controller.deciding import Decider
from gangline.model import Job, JobId, Phase
from gangline.model.kinds.queue import ROOT_QUEUE
from gangline.scheduling import DEFAULT_POLICIES, Decision, Snapshot, decide, take_snapshot
from gangline.testing.builders import START, make_job, make_node, make_role


class Moody:
    """Plays a scheduler with a defect: it fails when jobs of certain names are in its snapshot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bad: set[str] = set()
        self.cycles = 0
        self._names: set[str] = set()
        monkeypatch.setattr(deciding, "take_snapshot", self.take_snapshot)
        monkeypatch.setattr(deciding, "decide", self.decide)

    def take_snapshot(self, *, jobs: Collection[Job], **rest: object) -> Snapshot:
        self._names = {job.name for job in jobs}
        return take_snapshot(jobs=jobs, **rest)  # type: ignore[arg-type]  # handed through

    def decide(self, *arguments: object) -> Decision:
        self.cycles += 1
        if failing := self.bad & self._names:
            raise ArithmeticError(f"no idea what to do with {failing}")
        return decide(*arguments)  # type: ignore[arg-type]  # handed through


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> Moody:
    return Moody(monkeypatch)


def jobs_named(*names: str) -> list[Job]:
    return [make_job(job_id=name, name=name, roles=(make_role(),)) for name in names]


def cycle(decider: Decider, jobs: list[Job]) -> Decision:
    return decider.decide(jobs, nodes=[make_node(cpu=64)], queues=[ROOT_QUEUE], now=START)


def test_the_others_start_and_it_is_told(moody: Moody) -> None:
    decider, jobs = Decider(DEFAULT_POLICIES), jobs_named("a", "b", "odd", "c", "strange", "d")
    moody.bad = {"odd", "strange"}
    decision = cycle(decider, jobs)
    assert {start.job_id for start in decision.starts} == {"a", "b", "c", "d"}
    assert {job_id: why.constraint.value for job_id, why in decision.explanations.items()} == {
        "odd": "defect",
        "strange": "defect",
    }
    assert "Internal error" in decision.explanations[JobId("odd")].words()[0]


def test_it_is_searched_for_once_and_looked_at_again_when_it_changes(moody: Moody) -> None:
    decider, jobs = Decider(DEFAULT_POLICIES), jobs_named("a", "odd")
    moody.bad = {"odd"}
    cycle(decider, jobs)
    moody.cycles = 0
    assert "odd" in cycle(decider, jobs).explanations
    assert moody.cycles == 1
    moody.bad = set()
    changed = [replace(job, failures=1) if job.name == "odd" else job for job in jobs]
    assert {start.job_id for start in cycle(decider, changed).starts} == {"a", "odd"}


def test_a_gang_that_holds_machines_is_never_left_out(moody: Moody) -> None:
    (job,) = jobs_named("odd")
    moody.bad = {"odd"}
    held = replace(job, holding=True, history=(replace(job.history[0], phase=Phase.STARTING),))
    with pytest.raises(ArithmeticError):
        cycle(Decider(DEFAULT_POLICIES), [held, *jobs_named("a")])
