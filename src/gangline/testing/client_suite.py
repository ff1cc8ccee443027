"""The contract of a client as tests: the same verbs and the same errors, whichever transport carries them.

A transport proves itself with a subclass of ``ClientSuite`` whose fixture ``client`` yields a client of a running
service with the local engine. Nothing here knows how requests travel.
"""

import os
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gangline.errors import ConflictError, InvalidInputError, InvalidTransitionError, NotFoundError, WaitTimeoutError
from gangline.model import JobSpec, Phase, QueueName, Resources, Tenant, Timestamp
from gangline.sdk import Client
from gangline.testing.builders import make_role, make_spec

PATIENCE_SECONDS = 60.0
FAR_FUTURE = Timestamp(4_000_000_000.0)

_SERVE = ("sh", "-c", "echo serving; exec sleep 1000")
_SMALL = Resources(cpu_millis=100, memory_mib=64)


def make_command(name: str, *command: str, maximum: int | None = None, **fields: Any) -> JobSpec:
    """Return a small job of one worker that runs a command; with a ``maximum`` it may grow."""
    return make_spec(name, roles=(make_role(command=command, resources=_SMALL, maximum=maximum),), **fields)


class ClientSuite:
    """What every client must do."""

    @pytest.fixture
    def client(self) -> Client | Iterator[Client]:
        """Yield a client of a running service; every subclass says how."""
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        """A job name nobody else uses: the tests of a class share one service."""
        return f"job-{secrets.token_hex(4)}"

    # Submitting and looking

    def test_a_job_runs_to_its_end_and_leaves_its_output(self, client: Client, name: str) -> None:
        """The thin path: submit, wait, read."""
        spec = replace(make_command(name, "sh", "-c", "echo out; echo err >&2"), env={"PATH": os.environ["PATH"]})
        submitted = client.submit(spec)  # with a PATH of its own, it sees no environment of the client's
        assert submitted.name == name
        done = client.wait(name, timeout=PATIENCE_SECONDS)
        assert (done.phase, done.exit_code) == (Phase.COMPLETED, 0)
        assert replace(client.get(submitted.id).spec, source=None) == spec
        lines = {(line.text, line.stream, str(line.replica)) for line in client.logs(name)}
        assert lines == {("out", "stdout", "worker-0"), ("err", "stderr", "worker-0")}

    def test_a_job_keeps_its_own_exit_code(self, client: Client, name: str) -> None:
        """Failure is an answer, not an error."""
        client.submit(make_command(name, "sh", "-c", "exit 7"))
        done = client.wait(name, timeout=PATIENCE_SECONDS)
        assert (done.phase, done.exit_code) == (Phase.FAILED, 7)

    def test_a_repeated_submission_is_the_same_job(self, client: Client, name: str) -> None:
        """An answer that was lost may be asked for again."""
        first = client.submit(make_command(name, "true"), job_id=f"id-{name}")
        assert client.submit(make_command(name, "true"), job_id=f"id-{name}").id == first.id

    def test_a_list_is_filtered(self, client: Client, name: str) -> None:
        """By text, label and phase, newest first."""
        for number in range(3):
            client.submit(make_command(f"{name}-{number}", "true", labels={"suite": name}), halted=number == 2)
        assert [job.name for job in client.list(text=name)] == [f"{name}-{number}" for number in (2, 1, 0)]
        assert len(client.list(labels={"suite": name}, limit=2)) == 2
        assert [job.name for job in client.list(text=name, phases=[Phase.HALTED])] == [f"{name}-2"]
        assert client.list(text=name, phases=["HALTED"]) == client.list(text=name, phases=[Phase.HALTED])  # type: ignore[list-item]  # what users write
        assert client.list(labels={"suite": "other"}) == ()
        assert f"{name}-2" in {job.name for job in client.unfinished()}

    def test_following_reads_all_there_is_until_the_end(self, client: Client, name: str) -> None:
        """Also when it begins before the job does."""
        client.submit(make_command(name, "sh", "-c", "for i in 1 2 3; do echo $i; done"))
        assert [line.text for line in client.logs(name, follow=True)] == ["1", "2", "3"]

    def test_a_watch_tells_every_step(self, client: Client, name: str) -> None:
        """The last change holds the whole history."""
        client.submit(make_command(name, "true"))
        jobs = (change.job for change in client.watch(name, timeout=PATIENCE_SECONDS))
        last = next(job for job in jobs if job is not None and job.finished)
        phases = [entry.phase for entry in last.history]
        assert phases[0] is Phase.QUEUED
        assert phases[-1] is Phase.COMPLETED

    def test_events_tell_who_asked(self, client: Client, name: str) -> None:
        """The journal begins with the submission."""
        client.submit(make_command(name, "true"), halted=True)
        first = client.events(name)[0]
        assert first.reason == "Submitted"
        assert first.message.startswith("by ")
        assert client.events(name, after=client.events(name)[-1].number) == ()

    def test_reported_numbers_come_back(self, client: Client, name: str) -> None:
        """From gangline.runtime inside the job to the client."""
        program = "from gangline import runtime\nfor step in range(3): runtime.report(loss=1 / (step + 1), step=step)"
        client.submit(make_command(name, sys.executable, "-c", program))
        client.wait(name, timeout=PATIENCE_SECONDS)
        assert [(metric.name, metric.step) for metric in client.metrics(name)] == [("loss", step) for step in range(3)]
        (latest,) = client.latest_metrics(name)
        assert latest.value == pytest.approx(1 / 3)

    def test_code_is_shipped_once(self, client: Client, name: str, tmp_path: Path) -> None:
        """The directory arrives as the job's working directory."""
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "train.py").write_text("print('trained')\n")
        spec = make_command(name, sys.executable, "package/train.py", code=str(tmp_path))
        submitted = client.submit(spec)
        assert submitted.spec.code == client.send_code(tmp_path)
        assert client.wait(name, timeout=PATIENCE_SECONDS).phase is Phase.COMPLETED
        assert [line.text for line in client.logs(name)] == ["trained"]

    # Asking for changes

    def test_a_halted_job_holds_nothing_and_goes_on_when_resumed(self, client: Client, name: str) -> None:
        """Halt, resume, cancel: one life."""
        client.submit(make_command(name, *_SERVE))
        client.wait(name, phases=[Phase.PROCESSING], timeout=PATIENCE_SECONDS)
        client.halt(name)
        halted = client.wait(name, phases=[Phase.HALTED], timeout=PATIENCE_SECONDS)
        assert not halted.holding
        client.resume(name)
        client.wait(name, phases=[Phase.PROCESSING], timeout=PATIENCE_SECONDS)
        client.cancel(name)
        assert client.wait(name, timeout=PATIENCE_SECONDS).phase is Phase.CANCELLED

    def test_a_deleted_job_is_gone_with_all_it_left(self, client: Client, name: str) -> None:
        """Also one that runs."""
        client.submit(make_command(name, *_SERVE))
        client.wait(name, phases=[Phase.PROCESSING], timeout=PATIENCE_SECONDS)
        client.delete(name, timeout=PATIENCE_SECONDS)
        with pytest.raises(NotFoundError):
            client.get(name)

    def test_an_elastic_role_is_scaled(self, client: Client, name: str) -> None:
        """The wanted count is remembered."""
        client.submit(make_command(name, *_SERVE, maximum=3))
        assert client.scale(name, {"worker": 2}).scale == (("worker", 2),)
        client.delete(name, timeout=PATIENCE_SECONDS)

    def test_finished_jobs_are_pruned(self, client: Client, name: str) -> None:
        """By the time they finished, and for this tenant alone."""
        client.submit(make_command(name, "true"), halted=True)
        client.cancel(name)
        assert client.prune(finished_before=Timestamp(0.0)) == ()
        assert name in client.prune(finished_before=FAR_FUTURE)
        client.wait_until_gone(name, timeout=PATIENCE_SECONDS)

    # Machines

    def test_a_job_that_cannot_fit_is_explained(self, client: Client, name: str) -> None:
        """In facts and in sentences."""
        huge = make_role(command=("true",), resources=Resources(cpu_millis=10_000_000, memory_mib=1))
        client.submit(make_spec(name, roles=(huge,)))
        deadline = time.monotonic() + PATIENCE_SECONDS
        why = client.explain(name)
        while why.constraint is None and time.monotonic() < deadline:  # no cycle has looked at it yet
            why = client.explain(name)
        assert why.constraint == "too-large"
        assert why.sentences
        assert why.line is not None
        assert 1 <= why.line.place_in_queue <= why.line.place <= why.line.waiting
        client.delete(name, timeout=PATIENCE_SECONDS)

    def test_nodes_queues_and_usage_are_told(self, client: Client, name: str) -> None:
        """What a running job uses is shown with it."""
        client.submit(make_command(name, *_SERVE))
        client.wait(name, phases=[Phase.PROCESSING], timeout=PATIENCE_SECONDS)
        top = next(top for top in client.top_jobs() if top.job.name == name)
        assert [str(usage.replica) for usage in top.replicas] == ["worker-0"]
        nodes = client.top_nodes()
        assert sum(node.replicas for node in nodes) >= 1
        assert all(node.node.capacity.cpu_millis > 0 for node in nodes)
        assert [queue.name for queue in client.queues.list()] == ["default"]
        client.delete(name, timeout=PATIENCE_SECONDS)

    # Errors

    def test_errors_arrive_with_their_class_and_facts(self, client: Client, name: str) -> None:
        """The very same classes that the service raised."""
        with pytest.raises(NotFoundError) as missing:
            client.get(name)
        assert (missing.value.kind, missing.value.name) == ("job", name)
        client.submit(make_command(name, "true"), halted=True)
        with pytest.raises(ConflictError, match=f"gangline delete {name}"):
            client.submit(make_command(name, "true"))
        with pytest.raises(InvalidInputError) as refused:
            client.submit(make_command(f"{name}-b", "true", queue=QueueName("defualt")))
        assert (refused.value.field, refused.value.suggestion) == ("metadata.queue", "default")
        client.cancel(name)
        with pytest.raises(InvalidTransitionError) as late:
            client.resume(name)
        assert (late.value.job, late.value.phase) == (name, "CANCELLED")

    def test_an_error_in_a_stream_is_raised_too(self, client: Client, name: str) -> None:
        """Even though the answer had begun."""
        client.submit(make_command(name, "true"), halted=True)
        with pytest.raises(InvalidInputError, match="one of worker"):
            list(client.logs(name, role="chief"))
        with pytest.raises(NotFoundError):
            client.logs(f"{name}-other")

    def test_waiting_ends_in_time_and_never_in_vain(self, client: Client, name: str) -> None:
        """A time-out changes nothing; a phase that can no longer come is not a reason to wait."""
        client.submit(make_command(name, "true"), halted=True)
        with pytest.raises(WaitTimeoutError):
            client.wait(name, timeout=0.05)
        client.cancel(name)
        with pytest.raises(ConflictError, match="will never be PROCESSING"):
            client.wait(name, phases=[Phase.PROCESSING], timeout=PATIENCE_SECONDS)

    def test_tenants_do_not_see_each_other(self, client: Client, name: str) -> None:
        """The same name twice is two jobs."""
        client.submit(make_command(name, "true"), halted=True)
        client.submit(make_command(name, "true", tenant=Tenant("vision")), halted=True)
        assert [job.spec.tenant for job in client.list(text=name)] == [client.tenant]
