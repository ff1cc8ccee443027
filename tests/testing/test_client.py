"""The client for tests of users: what it adds to the contract of clients, which tests/contract has it keep."""

import math
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from gangline.errors import ConflictError, NotFoundError, UnreachableError, WaitTimeoutError
from gangline.model import JobSpec, Phase, Policy, ReplicaId, Resources, Restart, RoleName
from gangline.model.kinds.sweep import Goal, Objective, SweepSpec, SweepState
from gangline.model.search.parameter import Parameter
from gangline.testing.builders import make_node, make_role, make_spec
from gangline.testing.client import InMemoryClient, Outcome


def test_all_that_follows_from_a_request_has_happened_when_it_returns() -> None:
    with InMemoryClient() as client:
        assert client.submit(make_spec()).phase is Phase.QUEUED
        assert client.get("mnist").phase is Phase.PROCESSING
        done = client.finish("mnist", metrics={"accuracy": 0.98}, output=["epoch 1"], errors=["slow"])
        assert (done.phase, done.exit_code) == (Phase.COMPLETED, 0)
        assert [(metric.name, metric.value, metric.step) for metric in client.metrics("mnist")] == [
            ("accuracy", 0.98, None)
        ]
        assert [(line.text, line.stream) for line in client.logs("mnist")] == [
            ("epoch 1", "stdout"),
            ("slow", "stderr"),
        ]
        assert client.wait("mnist") == done


def test_a_replica_reports_while_it_runs() -> None:
    second = ReplicaId(RoleName("worker"), 1)
    with InMemoryClient() as client:
        client.submit(make_spec(roles=(make_role(replicas=2),)))
        client.report("mnist", metrics={"loss": [0.5, 0.25]}, output=["begun"])
        assert client.report("mnist", output=["here, too"], replica=second).phase is Phase.PROCESSING
        assert [(metric.value, metric.step) for metric in client.metrics("mnist")] == [(0.5, 0), (0.25, 1)]
        assert [(str(line.replica), line.text) for line in client.logs("mnist")] == [
            ("worker-0", "begun"),
            ("worker-1", "here, too"),
        ]


def test_one_replica_fails_and_is_started_again_after_its_back_off() -> None:
    policy = Policy(backoff_seconds=30.0)
    role = make_role(replicas=2, restart=Restart.REPLICA)
    first = ReplicaId(RoleName("worker"), 0)
    with InMemoryClient() as client:
        client.submit(make_spec(roles=(role,), policy=policy))
        client.finish("mnist", exit_code=1, replica=first)
        with pytest.raises(ConflictError, match="worker-0 does not run"):
            client.finish("mnist", replica=first)
        client.advance(29.0)
        assert client.get("mnist").replicas[0].incarnation == 0
        client.advance(2.0)
        assert client.get("mnist").replicas[0].incarnation == 1
        assert client.finish("mnist").phase is Phase.COMPLETED


def test_a_job_that_fails_is_tried_again_as_often_as_its_policy_says() -> None:
    policy = Policy(max_attempts=2, backoff_seconds=10.0)
    with InMemoryClient() as client:
        client.submit(make_spec(policy=policy))
        assert not client.finish("mnist", exit_code=1).finished
        client.advance(60.0)
        assert client.get("mnist").attempt == 2
        done = client.finish("mnist", exit_code=4)
        assert (done.phase, done.exit_code) == (Phase.FAILED, 4)


def test_time_passes_only_when_it_is_moved() -> None:
    with InMemoryClient() as client:
        client.submit(make_spec(policy=Policy(deadline_seconds=3600, ttl_seconds=60)))
        began = client.now()
        client.advance(3599)
        assert client.get("mnist").phase is Phase.PROCESSING
        client.advance(2)
        assert client.get("mnist").phase is Phase.FAILED
        assert client.now() - began == pytest.approx(3601, abs=0.1)
        client.advance(61)
        with pytest.raises(NotFoundError):
            client.get("mnist")


def test_a_job_that_waits_cannot_be_finished_and_it_is_said_why() -> None:
    greedy = make_role(resources=Resources(cpu_millis=1000, gpu_millis=2000))
    with InMemoryClient(nodes=[make_node(gpus=2)]) as client:
        client.submit(make_spec("one", roles=(greedy,)))
        client.submit(make_spec("two", roles=(greedy,)))
        with pytest.raises(ConflictError, match=r"'two' is QUEUED and none of its replicas runs: .*GPU"):
            client.finish("two")
        client.finish("one")
        assert client.finish("two").phase is Phase.COMPLETED


def test_a_script_plays_a_whole_sweep() -> None:
    def train(spec: JobSpec, replica: ReplicaId) -> Outcome:
        rate = float(spec.role(replica.role).command[-1])
        return Outcome(metrics={"loss": (rate - 0.2) ** 2}, exit_code=0 if rate < 0.9 else 1)

    template = make_spec("tune", roles=(make_role(command=("train", "$(rate)")),), policy=Policy(max_attempts=1))
    sweep = SweepSpec(
        name="tune",
        template=template,
        parameters=(Parameter("rate", ("0.1", "0.2", "0.9")),),
        parallelism=1,
        objective=Objective("loss", Goal.MINIMIZE),
    )
    with InMemoryClient(script=train) as client:
        client.sweeps.submit(sweep)
        done = client.sweeps.get("tune")
        assert done.state is SweepState.FINISHED
        assert [trial.phase for trial in done.trials] == [Phase.COMPLETED, Phase.COMPLETED, Phase.FAILED]
        assert done.best == 1


def test_waiting_for_what_nobody_does_is_given_up() -> None:
    with InMemoryClient(patience_seconds=0.1) as client:
        client.submit(make_spec())
        with pytest.raises(WaitTimeoutError):
            client.wait("mnist")
        with pytest.raises(WaitTimeoutError):
            list(client.logs("mnist", follow=True))


def test_another_thread_may_wait_for_what_the_test_does() -> None:
    found = []
    with InMemoryClient() as client:
        client.submit(make_spec())
        waiting = threading.Thread(target=lambda: found.append(client.wait("mnist").phase))
        waiting.start()
        client.finish("mnist")
        waiting.join()
    assert found == [Phase.COMPLETED]


def test_clients_know_nothing_of_each_other_nor_of_the_users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGLINE_TENANT", "somebody")
    with InMemoryClient() as one, InMemoryClient(tenant="vision") as other:
        one.submit(make_spec())
        assert (one.tenant, other.tenant) == ("default", "vision")
        assert other.list(all_tenants=True) == ()


def test_nothing_is_left_when_it_is_closed() -> None:
    before = threading.active_count()
    client = InMemoryClient()
    client.submit(replace(make_spec(), code=None))
    client.close()
    client.close()
    assert threading.active_count() == before
    with pytest.raises(UnreachableError, match="closed"):
        client.list()
    with pytest.raises(UnreachableError, match="closed"):
        client.advance(1)


def test_a_program_that_forgets_to_close_it_ends_all_the_same() -> None:
    program = "from gangline.testing.client import InMemoryClient; print(InMemoryClient().queues.list()[0].name)"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "default\n", "")


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_time_only_passes(seconds: float) -> None:
    with InMemoryClient() as client:
        before = client.now()
        with pytest.raises(ValueError, match="time cannot pass"):
            client.advance(seconds)
        assert client.now() - before < 0.5
