"""Gangs whose size the scheduler chooses, through the real controller in virtual time."""

import math
from collections.abc import Mapping
from itertools import pairwise

from gangline.allocation.sizes import SERVED_GPU_SECONDS
from gangline.engines.simulated import Measuring
from gangline.lifecycle.events import SpeedMeasured
from gangline.model import (
    Gang,
    GangReplica,
    JobId,
    JobSpec,
    Phase,
    Policy,
    Resources,
    RoleName,
    RoleSpec,
    Sizing,
    Timestamp,
)
from gangline.model.jobs.speed import SpeedSample
from gangline.simulator import Setup, parse_nodes, simulate
from gangline.simulator.run import Outcome
from gangline.simulator.traces import Arrival


class Divided:
    """Programs that need ``whole`` seconds alone, of which the part ``serial`` is not divided among their replicas."""

    def __init__(
        self,
        whole: Mapping[str, float],
        serial: Mapping[str, float],
        *,
        silent: tuple[str, ...] = (),
        quiet: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._whole, self._serial = whole, serial
        self._quiet = dict.fromkeys(silent, (0.0, math.inf)) | dict(quiet or {})
        """From when to when each reports nothing."""
        self._done: dict[JobId, float] = {}
        self.sizes: dict[JobId, list[int]] = {}

    def _total(self, gang: Gang) -> float:
        name, count = gang.spec.name, len(gang.replicas)
        return self._whole[name] * (self._serial[name] + (1 - self._serial[name]) / count)

    def seconds_left(self, gang: Gang) -> float:
        return (1 - self._done.get(gang.id.job_id, 0.0)) * self._total(gang)

    def advance(self, gang: Gang, seconds: float) -> None:
        self._done[gang.id.job_id] = self._done.get(gang.id.job_id, 0.0) + seconds / self._total(gang)

    def exit_code(self, gang: Gang, replica: GangReplica) -> int | None:
        return 0

    def measure(self, gang: Gang, seconds: float, at: Timestamp) -> SpeedMeasured | None:
        self.sizes.setdefault(gang.id.job_id, []).append(len(gang.replicas))
        begun, ended = self._quiet.get(gang.spec.name, (math.inf, math.inf))
        if begun <= at < ended:
            return None
        sample = SpeedSample(
            workers=len(gang.replicas), step_seconds=self._total(gang), steps=seconds / self._total(gang)
        )
        return SpeedMeasured(job_id=gang.id.job_id, at=at, sample=sample, progress=self._done[gang.id.job_id])


_conforms: type[Measuring] = Divided


def arrival(name: str, at: float = 0.0, *, most: int = 8, sizing: Sizing = Sizing.AUTO) -> Arrival:
    role = RoleSpec(
        name=RoleName("worker"),
        replicas=1 if sizing is Sizing.AUTO else most,
        minimum=1 if sizing is Sizing.AUTO else None,
        maximum=most if sizing is Sizing.AUTO else None,
        command=("train", name),
        resources=Resources(cpu_millis=1000, gpu_millis=1000),
    )
    spec = JobSpec(name=name, roles=(role,), policy=Policy(replicas=sizing))
    return Arrival(at=Timestamp(at), spec=spec, seconds=0.0)


def run(work: Divided, *arrivals: Arrival, nodes: str = "2x4") -> Outcome:
    outcome = simulate(Setup(nodes=parse_nodes(nodes), tick_seconds=60.0, start_seconds=10.0), arrivals, work)
    assert all(job.phase is Phase.COMPLETED for job in outcome.jobs)
    return outcome


def test_a_gang_grows_step_by_step_to_all_that_it_can_use() -> None:
    work = Divided({"alone": 36_000.0}, {"alone": 0.0})
    run(work, arrival("alone"))
    sizes = work.sizes[JobId("alone")]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 8
    assert all(after <= 2 * before for before, after in pairwise(sizes))


def test_machines_go_to_whoever_makes_use_of_them() -> None:
    work = Divided({"good": 36_000.0, "bad": 36_000.0}, {"good": 0.0, "bad": 0.9})
    run(work, arrival("good"), arrival("bad"), nodes="1x8")
    assert max(work.sizes[JobId("good")]) > 4
    while_both = work.sizes[JobId("bad")][: len(work.sizes[JobId("good")])]
    assert max(while_both) <= 3


def test_a_gang_that_reports_nothing_keeps_its_least_and_harms_nobody() -> None:
    work = Divided({"silent": 20_000.0, "open": 36_000.0}, {"silent": 0.0, "open": 0.0}, silent=("silent",))
    run(work, arrival("silent"), arrival("open"))
    assert set(work.sizes[JobId("silent")]) == {1}
    assert max(work.sizes[JobId("open")]) >= 4


def test_a_gang_that_falls_silent_gives_up_what_it_got_for_its_word_and_harms_nobody() -> None:
    whole = {"silent": 72_000.0, "open": 72_000.0}
    work = Divided(whole, dict.fromkeys(whole, 0.0), quiet={"silent": (1800.0, math.inf)})
    run(work, arrival("silent"), arrival("open"), nodes="1x8")
    sizes = work.sizes[JobId("silent")]  # one of every minute
    assert sizes[28] == 4
    assert set(sizes[45:90]) == {1}  # and does not come and go
    assert max(work.sizes[JobId("open")][45:90]) == 7


def test_a_gang_that_reports_again_is_counted_again() -> None:
    work = Divided({"job": 72_000.0}, {"job": 0.0}, quiet={"job": (1800.0, 4800.0)})
    run(work, arrival("job"))
    sizes = work.sizes[JobId("job")]
    assert sizes[60] == 1
    assert max(sizes[82:]) == 8


def test_sizes_do_not_go_to_and_fro() -> None:
    work = Divided({"a": 36_000.0, "b": 36_000.0}, {"a": 0.1, "b": 0.1})
    run(work, arrival("a"), arrival("b"))
    for sizes in work.sizes.values():
        changes = [(before, after) for before, after in pairwise(sizes) if before != after]
        assert all(after > before for before, after in changes) or len(changes) <= 5


def test_a_new_run_of_the_same_code_begins_at_the_size_that_an_earlier_one_showed() -> None:
    first, second = arrival("train"), arrival("train", at=40_000.0)
    spec = second.spec
    work = Divided({"train": 18_000.0, "again": 18_000.0}, {"train": 0.0, "again": 0.0})
    again = Arrival(at=second.at, spec=JobSpec(name="again", roles=spec.roles, policy=spec.policy), seconds=0.0)
    run(work, first, again)
    assert work.sizes[JobId("train")][0] == 1
    assert work.sizes[JobId("again")][0] == 8


def test_a_gang_whose_user_named_its_size_is_served_before_anybody_grows() -> None:
    work = Divided({"auto": 36_000.0, "fixed": 3600.0}, {"auto": 0.0, "fixed": 0.0})
    outcome = run(work, arrival("auto"), arrival("fixed", at=7200.0, most=4, sizing=Sizing.ASKED))
    fixed = next(job for job in outcome.jobs if job.name == "fixed")
    assert fixed.started_at is not None
    assert fixed.started_at - fixed.created_at <= 120.0


def test_two_gangs_of_thirteen_share_24_processors_instead_of_running_one_after_the_other() -> None:
    # Each ends before it has had so much that the other would be let in.
    whole = {"first": 52_000.0, "second": 52_000.0}
    assert all(seconds < SERVED_GPU_SECONDS for seconds in whole.values())

    def both(sizing: Sizing) -> Outcome:
        work = Divided(whole, dict.fromkeys(whole, 0.0))
        return run(work, *(arrival(name, most=13, sizing=sizing) for name in whole), nodes="2x12")

    fixed, auto = both(Sizing.ASKED), both(Sizing.AUTO)
    waits = [max((job.started_at or math.inf) - job.created_at for job in each.jobs) for each in (fixed, auto)]
    assert waits[0] >= 52_000.0 / 13  # the second waits for the end of the first
    assert waits[1] <= 60.0
    assert auto.ended_at <= 0.7 * fixed.ended_at
