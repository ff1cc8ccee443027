"""Random lives: whatever happens in whatever order, no invariant breaks and no order is lost."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from gangline.errors import ConflictError, InvalidInputError
from gangline.lifecycle import advance, standing, timers
from gangline.lifecycle import events as e
from gangline.lifecycle.invariants import check_invariants, check_step
from gangline.model import DataMove, Job, NodeName, Policy, ReplicaId, Restart, Retry, RoleName, Success, Timestamp
from gangline.model.jobs.transfer import DataVersion, TransferProgress
from gangline.testing.builders import START, make_job, make_placement, make_role, make_spec

roles = st.sampled_from(
    [
        (make_role("worker", replicas=2),),
        (make_role("worker", replicas=3, minimum=1, maximum=4),),
        (make_role("chief"), make_role("ps", restart=Restart.REPLICA), make_role("worker", replicas=2, minimum=1)),
        (make_role("launcher"), make_role("worker", replicas=2, restart=Restart.NEVER)),
    ]
)
policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 3),
    max_replica_restarts=st.integers(0, 2),
    restart=st.sampled_from(Restart),
    retry=st.sampled_from(Retry),
    success=st.sampled_from([None, *Success]),
    deadline_seconds=st.sampled_from([None, 5.0]),
    ttl_seconds=st.sampled_from([None, 5.0]),
)
specs = st.builds(
    lambda roles, policy, outputs: make_spec(roles=roles, policy=policy, outputs=outputs),
    roles,
    policies,
    st.sampled_from([(), (DataMove("a", "b"),)]),
)

Draw = Callable[[st.SearchStrategy[int]], int]


def next_event(job: Job, at: Timestamp, draw: Draw) -> e.Event:
    """Something that could be said of this job now, sensible or not."""
    role = job.spec.roles[draw(st.integers(0, len(job.spec.roles) - 1))]
    replica = ReplicaId(role.name, draw(st.integers(0, role.most)))
    attempt = max(0, job.attempt - draw(st.sampled_from([0, 0, 0, 1])))
    known = job.replica(replica)
    incarnation = known.incarnation if known else 0
    news = {"job_id": job.id, "at": at, "attempt": attempt}
    one = {**news, "replica": replica, "incarnation": incarnation}
    plain = {"job_id": job.id, "at": at}
    kinds: list[Callable[[], e.Event]] = [
        lambda: e.GangPlaced(**plain, placement=make_placement(job.spec)),
        lambda: e.GangFound(**{**news, "attempt": attempt + 1}, placement=make_placement(job.spec)),
        lambda: e.ReplicaDelayed(**one, message="full"),
        lambda: e.ReplicaNoticed(**news, replica=replica, message=draw(st.sampled_from(["", "stalled: no step"]))),
        lambda: e.GangStalled(**news, message="no step"),
        lambda: e.LossDiverged(**news, message="loss is NaN"),
        lambda: e.ReplicaStarted(**one),
        lambda: e.ReplicaStarted(**one),
        lambda: e.ReplicaExited(**one, exit_code=0),
        lambda: e.ReplicaExited(**one, exit_code=draw(st.sampled_from([1, 137]))),
        lambda: e.ReplicaLost(**one),
        lambda: e.GangStopped(**news),
        lambda: e.GangStopped(**news),
        lambda: e.GangFailed(
            **news, reason="R", message="m", permanent=draw(st.booleans()), blameless=draw(st.booleans())
        ),
        lambda: e.OutputsStored(**news),
        lambda: e.TransferReported(**news, progress=TransferProgress(), moved=(DataVersion("file:///x"),)),
        lambda: e.DownloadStarted(**news),
        lambda: e.HaltRequested(**plain),
        lambda: e.ResumeRequested(**plain),
        lambda: e.GangEvicted(**plain, reason="room"),
        lambda: e.GangGrown(**plain, added={ReplicaId(role.name, role.most - 1): NodeName("node-1")}),
        lambda: e.GangShrunk(**plain, removed=_surplus(job), reason="room"),
        lambda: e.ScaleRequested(**plain, scale={RoleName(role.name): draw(st.integers(0, 5))}),
        lambda: e.BackoffElapsed(**plain),
        lambda: e.CheckpointSaved(**plain),
        lambda: e.DeadlinePassed(**plain),
        lambda: e.CancelRequested(**plain) if draw(st.integers(0, 5)) == 0 else e.GangStopped(**news),
        lambda: e.DeleteRequested(**plain) if draw(st.integers(0, 5)) == 0 else e.GangStopped(**news),
    ]
    return kinds[draw(st.integers(0, len(kinds) - 1))]()


def _surplus(job: Job) -> tuple[ReplicaId, ...]:
    for role in job.spec.roles:
        own = sorted(status.id for status in job.replicas if status.id.role == role.name)
        if role.elastic and len(own) > role.least and len(job.replicas) > 1:
            return (own[-1],)
    return ()


@given(specs, st.data())
def test_no_sequence_of_events_breaks_an_invariant_or_loses_an_order(spec: object, data: st.DataObject) -> None:
    job = make_job(spec)
    at = float(START)
    for _ in range(data.draw(st.integers(1, 40))):
        at += data.draw(st.sampled_from([0.0, 0.5, 3.0]))
        event = next_event(job, Timestamp(at), data.draw)
        try:
            outcome = advance(job, event)
        except (ConflictError, InvalidInputError):
            continue
        check_invariants(outcome.job)
        check_step(job, outcome.job)
        assert set(map(repr, outcome.instructions)) <= set(map(repr, standing(outcome.job)))
        for timer in timers(outcome.job):
            after = advance(outcome.job, timer.event).job
            assert timer not in timers(after), "a timer that has come due must not come due again"
        if repr(standing(outcome.job)) != repr(standing(job)) and standing(outcome.job):
            assert outcome.instructions or _only_news(job, outcome.job), event
        job = outcome.job


def _only_news(before: Job, after: Job) -> bool:
    """The order is the same but for what is already known to have started."""
    return [(s.id, s.incarnation) for s in before.replicas] == [(s.id, s.incarnation) for s in after.replicas]
