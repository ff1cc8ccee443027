"""When workspaces begin, are warned and stop."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gangline.errors import ConflictError, InvalidInputError
from gangline.lifecycle import advance
from gangline.lifecycle.events import CancelRequested, GangStopped, ReplicaExited
from gangline.model import Job, Timestamp
from gangline.model.kinds.workspace import Tool, Workspace, WorkspaceSpec, WorkspaceStatus
from gangline.model.record import Record, RecordId
from gangline.testing.builders import START, make_job, make_running_job
from gangline.workspaces import WorkspacePlan, WorkspaceSight, plan, run_job, started, stopped

READY = WorkspaceSight(ready=True)
IDLE, WARNING = 3600.0, 300.0


def make_workspace(**fields: object) -> Workspace:
    spec = WorkspaceSpec(name="nb", **fields)  # type: ignore[arg-type]
    return Record(id=RecordId("s1"), spec=spec, status=WorkspaceStatus(), created_at=Timestamp(START))


def queued(workspace: Workspace) -> Job:
    return make_job(run_job(workspace), job_id=workspace.job_id(workspace.status.run))


def running(workspace: Workspace) -> Job:
    return make_running_job(run_job(workspace), job_id=workspace.job_id(workspace.status.run))


def ended(job: Job, code: int) -> Job:
    replica = job.replicas[0].id
    exited = ReplicaExited(
        job_id=job.id, at=Timestamp(START), attempt=job.attempt, replica=replica, incarnation=0, exit_code=code
    )
    job = advance(job, exited).job
    return advance(job, GangStopped(job_id=job.id, at=Timestamp(START), attempt=job.attempt)).job


def after(
    workspace: Workspace, jobs: Sequence[Job], seconds: float, sight: WorkspaceSight = READY
) -> tuple[Workspace, WorkspacePlan]:
    """Plan at a time, and check that the same plan again finds nothing new."""
    now = Timestamp(START + seconds)
    made = plan(workspace, jobs, sight, now)
    workspace = replace(workspace, status=made.status)
    again = plan(workspace, jobs, sight, now)
    assert again.status == made.status
    return workspace, made


def ready_workspace(**fields: object) -> tuple[Workspace, Job]:
    workspace = make_workspace(**fields)
    job = running(workspace)
    return after(workspace, [job], 0)[0], job


def test_a_new_workspace_asks_for_its_first_run_once() -> None:
    workspace, made = after(make_workspace(), [], 0, WorkspaceSight())
    assert made.start == 1
    assert workspace.state == "starting"
    _, made = after(workspace, [queued(workspace)], 1, WorkspaceSight())
    assert made.start is None
    assert made.status.notice == "it waits for a machine"


def test_it_is_ready_when_its_program_answers_and_not_before() -> None:
    workspace = make_workspace()
    waiting, made = after(workspace, [running(workspace)], 0, WorkspaceSight(message="it is starting"))
    assert (waiting.state, waiting.status.notice) == ("starting", "it is starting")
    assert made.again_at == START + 1
    workspace, _ = after(waiting, [running(workspace)], 5)
    assert (workspace.state, workspace.status.used_at) == ("ready", START + 5)


@pytest.mark.parametrize(
    ("seconds", "want_state", "want_warned"),
    [
        pytest.param(IDLE - WARNING - 1, "ready", False, id="not yet"),
        pytest.param(IDLE - WARNING, "ready", True, id="warned exactly then"),
        pytest.param(IDLE - 1, "ready", True, id="still there"),
        pytest.param(IDLE, "stopping", False, id="stopped exactly then"),
    ],
)
def test_who_is_idle_is_warned_and_then_stopped(seconds: float, want_state: str, want_warned: bool) -> None:
    workspace, job = ready_workspace()
    workspace, made = after(workspace, [job], seconds)
    assert workspace.state == want_state
    assert (workspace.status.warned_at is not None) is want_warned
    assert made.stop == ((1,) if want_state == "stopping" else ())


def test_a_plan_asks_to_be_looked_at_when_the_warning_and_the_end_are_due() -> None:
    workspace, job = ready_workspace()
    workspace, made = after(workspace, [job], 1)
    assert made.again_at == START + IDLE - WARNING
    workspace, made = after(workspace, [job], IDLE - WARNING)
    assert made.again_at == START + IDLE
    assert "stopped in 5m" in workspace.status.notice


def test_use_puts_off_the_end_and_takes_the_warning_back() -> None:
    workspace, job = ready_workspace()
    workspace, _ = after(workspace, [job], IDLE - WARNING)
    used = WorkspaceSight(ready=True, used_at=Timestamp(START + IDLE - 100))
    workspace, made = after(workspace, [job], IDLE - 50, used)
    assert (workspace.status.warned_at, workspace.status.notice) == (None, "")
    assert workspace.status.used_at == START + IDLE - 100
    assert made.again_at == START + 2 * IDLE - 100 - WARNING


def test_use_is_remembered_by_the_record_and_not_written_at_every_key() -> None:
    workspace, job = ready_workspace()
    soon, _ = after(workspace, [job], 20, WorkspaceSight(ready=True, used_at=Timestamp(START + 20)))
    assert soon.status.used_at == START
    later, _ = after(workspace, [job], 31, WorkspaceSight(ready=True, used_at=Timestamp(START + 30)))
    assert later.status.used_at == START + 30
    # After a restart nobody has seen any use: what the record says counts.
    stays, _ = after(later, [job], IDLE + 29)
    assert stays.state == "ready"
    assert after(later, [job], IDLE + 30)[0].state == "stopping"


def test_an_idle_time_of_nothing_means_never() -> None:
    workspace, job = ready_workspace(idle_seconds=0.0)
    workspace, made = after(workspace, [job], 100 * IDLE)
    assert (workspace.state, made.again_at) == ("ready", None)


def test_a_preempted_workspace_waits_and_its_time_in_the_queue_is_not_idleness() -> None:
    workspace, job = ready_workspace(preemptible=True)
    back = queued(workspace)
    workspace, made = after(workspace, [back], 10, WorkspaceSight())
    assert (workspace.state, made.start, made.stop) == ("starting", None, ())
    workspace, _ = after(workspace, [job], 10 * IDLE)
    assert workspace.state == "ready"
    assert workspace.status.used_at == START + 10 * IDLE


def test_a_stopped_workspace_is_settled_when_its_job_is_gone_and_starts_again_as_another_run() -> None:
    workspace, job = ready_workspace()
    workspace = stopped(workspace)
    workspace, made = after(workspace, [job], 1)
    assert (workspace.state, made.stop, workspace.settled) == ("stopping", (1,), False)
    with pytest.raises(ConflictError, match="being stopped"):
        started(workspace)
    cancelled = advance(job, CancelRequested(job_id=job.id, at=Timestamp(START))).job
    cancelled = advance(cancelled, GangStopped(job_id=job.id, at=Timestamp(START), attempt=1)).job
    workspace, made = after(workspace, [cancelled], 2)
    assert (workspace.state, workspace.settled) == ("stopped", True)
    assert workspace.status.events[-1].reason == "Stopped"
    workspace = started(workspace)
    workspace, made = after(workspace, [cancelled], 3, WorkspaceSight())
    assert (made.start, workspace.state) == (2, "starting")
    assert run_job(workspace).name == "nb-2"


def test_starting_what_runs_and_stopping_what_does_not_change_nothing() -> None:
    workspace, _ = ready_workspace()
    assert started(workspace) is workspace
    done = stopped(workspace)
    assert stopped(done) is done


@pytest.mark.parametrize(
    ("tool", "code", "want"),
    [
        (Tool.NOTEBOOK, 127, "jupyterlab is not installed where it runs; type 'pip install jupyterlab' there"),
        (Tool.TENSORBOARD, 127, "pip install tensorboard"),
        (Tool.NOTEBOOK, 1, "exited with 1"),
    ],
)
def test_a_program_that_fails_says_why(tool: Tool, code: int, want: str) -> None:
    workspace, job = ready_workspace(tool=tool)
    workspace, made = after(workspace, [ended(job, code)], 1)
    assert (workspace.state, made.start) == ("failed", None)
    assert want in workspace.status.problem
    assert not started(workspace).status.problem


def test_a_program_that_ends_by_itself_is_not_started_again() -> None:
    workspace, job = ready_workspace()
    workspace, made = after(workspace, [ended(job, 0)], 1)
    assert (workspace.state, made.start) == ("stopped", None)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"tool": Tool.PROGRAM}, "spec.command"),
        ({"command": ("x",)}, "spec.command"),
        ({"jobs": ("a",)}, "spec.jobs"),
        ({"idle_seconds": -1.0}, "spec.idle"),
        ({"volumes": {"data": "data"}}, "spec.volumes"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, object], want: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        make_workspace(**fields)
    assert refused.value.field == want


def test_a_run_has_its_files_its_token_by_reference_and_the_user_s_volumes() -> None:
    job = run_job(make_workspace(volumes={"data": "/data"}))
    template = job.roles[0].pod_template_json or ""
    assert '"claimName":"workspace-nb"' in template
    assert '"mountPath":"/data"' in template
    assert '"secretKeyRef":{"name":"workspace-nb","key":"token"}' in template
    assert job.policy.preemptible is False
