"""How Kubeflow jobs behave on the local engine: restart policies, shutdown rules, clean-up, the cluster each sees.

Every replica is a small server that exits with the code it is told to, in the manner of upstream's own suite.
"""

import json
import re
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.dialects.kubeflow import KINDS
from gangline.model import Job, Phase, ReplicaId
from tests.integration.kubeflow.conftest import LocalService

SERVER = [sys.executable, "-S", str(Path(__file__).with_name("obedient_server.py"))]
DEADLINE_SECONDS = 90.0
PAUSE = threading.Event()


class Cast:
    """One submitted job whose replicas do as they are told."""

    def __init__(self, service: LocalService, job: Job) -> None:
        self.client = service.client
        self.kubeconfig = service.kubeconfig
        self.name = job.name

    @property
    def job(self) -> Job:
        return self.client.get(self.name)

    def ask(self, replica: str, path: str = "/", *, attempt: int = 1, start: int = 1) -> dict[str, str]:
        """Send a replica a request, once it listens; ``start`` counts how often it did so in this attempt."""
        role, _, index = replica.partition("-")

        def address() -> str | None:
            lines = self.client.logs(self.name, role=role, index=int(index), attempt=attempt)
            heard = [line.text.rpartition(" ")[2] for line in lines if line.text.startswith("listening")]
            return heard[start - 1] if len(heard) >= start else None

        found = eventually(lambda: self.job.attempt >= attempt and address(), self.story)
        with urllib.request.urlopen(f"http://{found}{path}", timeout=10) as response:
            answer: dict[str, str] = json.loads(response.read())
        return answer

    def tell_to_exit(self, replica: str, code: int, *, attempt: int = 1, start: int = 1) -> None:
        self.ask(replica, f"/exit/{code}", attempt=attempt, start=start)

    def until(self, condition: Callable[[Job], object]) -> Job:
        eventually(lambda: condition(self.job), self.story)
        return self.job

    def story(self) -> str:
        """What is known of the job, for whoever reads a failure."""
        events = [
            f"{record.at:.3f} {record.reason} {record.replica} {record.message}"
            for record in self.client.events(self.name)
        ]
        output = [f"{line.attempt} {line.replica}: {line.text}" for line in self.client.logs(self.name)]
        return "\n".join([f"{self.job.phase} {self.job.replicas}", *events, *output])

    def pods(self) -> dict[str, Any]:
        """What a client of the Kubernetes interface sees of the job's pods."""
        import yaml

        config = yaml.safe_load(self.kubeconfig.read_text())
        server = re.sub("//[^@]*@", "//", config["clusters"][0]["cluster"]["server"])  # urllib takes no password there
        request = urllib.request.Request(
            f"{server}/api/v1/namespaces/default/pods?labelSelector=training.kubeflow.org%2Fjob-name%3D{self.name}",
            headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return {pod["metadata"]["name"]: pod for pod in json.loads(response.read())["items"]}


def eventually(condition: Callable[[], Any], story: Callable[[], str] = str) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not happen in time\n{story()}"
        PAUSE.wait(0.02)
    return found


Stage = Callable[..., Cast]


@pytest.fixture
def stage(service: LocalService, request: pytest.FixtureRequest) -> Stage:
    """Submits a job of the given kind; ``roles`` are replica types with their number and restart policy."""

    def submit(
        kind: str,
        roles: dict[str, tuple[int, str]],
        *,
        strict: bool = False,
        command: Sequence[str] = SERVER,
        **run_policy: object,
    ) -> Cast:
        name = f"b{abs(hash(request.node.name)) % 10**10}"
        field = KINDS[kind].replicas_field
        spec = {"containers": [{"name": KINDS[kind].container, "image": "any", "command": command}]}
        replicas = {
            role: {
                "replicas": count,
                "restartPolicy": policy,
                "template": {"spec": {**spec, "terminationGracePeriodSeconds": 1}},
            }
            for role, (count, policy) in roles.items()
        }
        document = {
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"runPolicy": {"backoffLimit": 1, **run_policy}, field: replicas},
        }
        (translation,) = read_plain(document, strict=strict)
        hasty = replace(translation.spec, policy=replace(translation.spec.policy, backoff_seconds=0.05))
        return Cast(service, service.client.submit(hasty))

    return submit


MEETING = """
import os, socket, time
host, _, port = os.environ["PADDLE_MASTER"].rpartition(":")
own = {"127.0.0.1", socket.gethostbyname(socket.gethostname())}
if host in own:
    with socket.create_server(("", int(port))) as server:
        for _ in range(int(os.environ["PADDLE_NNODES"]) - 1):
            server.accept()[0].close()
else:
    while socket.socket().connect_ex((host, int(port))):
        time.sleep(0.05)
"""
"""How replicas of PaddlePaddle find each other: whoever is at the address serves there, everybody else asks."""


def test_the_replicas_of_a_paddle_job_meet(stage: Stage) -> None:
    cast = stage("PaddleJob", {"Worker": (3, "Never")}, command=[sys.executable, "-S", "-c", MEETING])
    assert cast.until(lambda job: job.finished).phase is Phase.COMPLETED


RETRIED = [("OnFailure", 1), ("OnFailure", 130), ("ExitCode", 130), ("ExitCode", 143)]
FINAL = [("Never", 1), ("Never", 143), ("ExitCode", 1), ("ExitCode", 127)]
LED = {"TFJob": "Chief", "PyTorchJob": "Master"}


@pytest.mark.parametrize(("policy", "code"), RETRIED)
@pytest.mark.parametrize(("kind", "lead"), list(LED.items()))
@pytest.mark.parametrize("failing", ["lead", "worker"])
def test_a_failure_that_deserves_another_try_restarts_the_gang(
    stage: Stage, kind: str, lead: str, failing: str, policy: str, code: int
) -> None:
    cast = stage(kind, {lead: (1, policy), "Worker": (1, policy)})
    cast.tell_to_exit(f"{lead.lower()}-0" if failing == "lead" else "worker-0", code)
    cast.until(lambda job: job.attempt == 2)
    cast.tell_to_exit(f"{lead.lower()}-0", 0, attempt=2)
    job = cast.until(lambda job: job.finished)
    assert job.phase is Phase.COMPLETED
    assert [entry.phase for entry in job.history].count(Phase.RESTARTING) == 1


@pytest.mark.parametrize(("policy", "code"), FINAL)
@pytest.mark.parametrize("failing", ["chief-0", "worker-0", "ps-0"])
def test_a_failure_that_is_final_ends_the_job_and_frees_what_survives(
    stage: Stage, failing: str, policy: str, code: int
) -> None:
    cast = stage("TFJob", {"Chief": (1, policy), "Worker": (1, policy), "PS": (1, policy)})
    cast.tell_to_exit(failing, code)
    job = cast.until(lambda job: job.finished and not job.holding)
    assert (job.phase, job.exit_code, job.attempt) == (Phase.FAILED, code, 1)


@pytest.mark.parametrize("failing", ["chief-0", "worker-0", "ps-0"])
@pytest.mark.parametrize("code", [3, 137])
def test_a_failure_of_a_replica_that_is_always_restarted_restarts_the_gang(
    stage: Stage, failing: str, code: int
) -> None:
    cast = stage("TFJob", {"Chief": (1, "Always"), "Worker": (1, "Always"), "PS": (1, "Always")})
    cast.tell_to_exit(failing, code)
    cast.ask("chief-0", attempt=2)
    assert [entry.phase for entry in cast.job.history].count(Phase.RESTARTING) == 1


@pytest.mark.parametrize(("policy", "code"), [("OnFailure", 1), ("ExitCode", 143), ("Always", 3)])
def test_strict_restarts_the_failed_replica_alone(stage: Stage, policy: str, code: int) -> None:
    cast = stage("TFJob", {"Chief": (1, "Never"), "Worker": (1, policy)}, strict=True)
    cast.tell_to_exit("worker-0", code)
    cast.ask("worker-0", start=2)
    assert (cast.job.attempt, cast.job.replica_restarts) == (1, 1)


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@pytest.mark.parametrize(
    ("kind", "roles", "ending", "deciding"),
    [
        pytest.param("TFJob", {"Chief": "Never", "Worker": "Always"}, "worker-0", "chief-0", id="a worker"),
        pytest.param("TFJob", {"Worker": "Never", "PS": "Always"}, "ps-0", "worker-0", id="a server"),
        pytest.param("TFJob", {"Chief": "Never", "Evaluator": "Always"}, "evaluator-0", "chief-0", id="an evaluator"),
        pytest.param("PyTorchJob", {"Master": "Never", "Worker": "Always"}, "worker-0", "master-0", id="of PyTorch"),
    ],
)
def test_a_replica_that_is_always_restarted_comes_back_alone_when_it_ends_with_0(
    stage: Stage, kind: str, roles: dict[str, str], ending: str, deciding: str, strict: bool
) -> None:
    cast = stage(kind, {role: (1, policy) for role, policy in roles.items()}, strict=strict, backoffLimit=2)
    cast.tell_to_exit(ending, 0)
    cast.ask(ending, start=2)
    assert [status.incarnation for status in cast.job.replicas if str(status.id) == deciding] == [0]
    cast.tell_to_exit(deciding, 0)
    job = cast.until(lambda job: job.finished)
    assert (job.phase, job.attempt, job.replica_restarts) == (Phase.COMPLETED, 1, 1)


@pytest.mark.parametrize(
    ("kind", "roles", "ending"),
    [
        pytest.param("TFJob", {"Chief": 1}, "chief-0", id="a chief"),
        pytest.param("TFJob", {"Worker": 1}, "worker-0", id="the first worker"),
        pytest.param("JAXJob", {"Worker": 2}, "worker-1", id="one of all workers"),
    ],
)
def test_a_job_whose_deciding_replica_is_always_restarted_ends_by_its_limit(
    stage: Stage, kind: str, roles: dict[str, int], ending: str
) -> None:
    cast = stage(kind, {role: (count, "Always") for role, count in roles.items()}, backoffLimit=1)
    cast.tell_to_exit(ending, 0)
    cast.ask(ending, start=2)
    assert not cast.job.finished
    cast.tell_to_exit(ending, 0, start=2)
    job = cast.until(lambda job: job.finished)
    assert (job.phase, job.reason, job.attempt) == (Phase.FAILED, "RestartLimitReached", 1)


def test_a_gang_that_fails_more_often_than_its_limit_fails_for_good(stage: Stage) -> None:
    cast = stage("TFJob", {"Worker": (2, "OnFailure")})
    cast.tell_to_exit("worker-1", 5)
    cast.tell_to_exit("worker-1", 6, attempt=2)
    job = cast.until(lambda job: job.finished)
    assert (job.phase, job.exit_code, job.failures) == (Phase.FAILED, 6, 2)


def test_a_chief_that_is_done_ends_the_job(stage: Stage) -> None:
    cast = stage("TFJob", {"Chief": (1, "Never"), "Worker": (2, "Never"), "PS": (1, "Never")})
    cast.tell_to_exit("worker-0", 0)
    cast.until(lambda job: str(job.replica(ReplicaId.parse("worker-0")).state) == "succeeded")
    assert not cast.job.finished
    cast.tell_to_exit("chief-0", 0)
    assert cast.until(lambda job: job.finished).phase is Phase.COMPLETED


def test_without_a_chief_the_first_worker_decides(stage: Stage) -> None:
    cast = stage("TFJob", {"Worker": (2, "Never"), "PS": (1, "Never")})
    cast.tell_to_exit("worker-1", 0)
    cast.until(lambda job: str(job.replica(ReplicaId.parse("worker-1")).state) == "succeeded")
    assert not cast.job.finished
    cast.tell_to_exit("worker-0", 0)
    assert cast.until(lambda job: job.finished).phase is Phase.COMPLETED


def test_the_workers_of_a_jax_job_must_all_succeed(stage: Stage) -> None:
    cast = stage("JAXJob", {"Worker": (2, "Never")})
    cast.tell_to_exit("worker-0", 0)
    cast.until(lambda job: str(job.replica(ReplicaId.parse("worker-0")).state) == "succeeded")
    assert not cast.job.finished
    cast.tell_to_exit("worker-1", 0)
    assert cast.until(lambda job: job.finished).phase is Phase.COMPLETED


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ("None", {"chief-0": "Succeeded", "ps-0": "Succeeded"}),
        ("Running", {"chief-0": "Succeeded"}),
        ("All", {}),
    ],
)
def test_a_finished_job_keeps_the_pods_its_clean_up_policy_leaves(
    stage: Stage, policy: str, want: dict[str, str]
) -> None:
    cast = stage("TFJob", {"Chief": (1, "Never"), "PS": (1, "Never")}, cleanPodPolicy=policy)
    cast.ask("ps-0")
    assert {pod["status"]["phase"] for pod in cast.pods().values()} == {"Running"}
    cast.tell_to_exit("chief-0", 0)
    cast.until(lambda job: job.finished and not job.holding)
    left = {name.removeprefix(f"{cast.name}-"): pod["status"]["phase"] for name, pod in cast.pods().items()}
    assert left == want


def test_every_replica_of_a_tfjob_sees_the_same_cluster_and_its_own_place(stage: Stage) -> None:
    cast = stage(
        "TFJob", {"Chief": (1, "Never"), "Worker": (2, "Never"), "PS": (1, "Never"), "Evaluator": (1, "Never")}
    )
    places = {
        name: json.loads(cast.ask(name)["TF_CONFIG"])
        for name in ("chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0")
    }
    addresses = {name: cast.ask(name)["GANGLINE_ADDRESS"] for name in places}
    cluster = {
        "chief": [addresses["chief-0"]],
        "ps": [addresses["ps-0"]],
        "worker": [addresses["worker-0"], addresses["worker-1"]],
    }
    for name, config in places.items():
        role, _, index = name.partition("-")
        assert config == {"cluster": cluster, "task": {"type": role, "index": int(index)}, "environment": "cloud"}
    # TensorFlow listens on every address of a machine: on one machine each replica needs a port of its own.
    assert len({address.rpartition(":")[2] for address in addresses.values()}) == 5


def test_every_replica_of_a_pytorch_job_knows_master_rank_and_world(stage: Stage) -> None:
    cast = stage("PyTorchJob", {"Master": (1, "OnFailure"), "Worker": (2, "OnFailure")})
    seen = {name: cast.ask(name) for name in ("master-0", "worker-0", "worker-1")}
    host, _, port = seen["master-0"]["GANGLINE_ADDRESS"].partition(":")
    for rank, environment in enumerate(seen.values()):
        told = {name: environment[name] for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PET_NNODES")}
        want = {"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "3", "PET_NNODES": "3"}
        assert told == want
    assert int(port) >= 23456


def test_a_job_that_runs_too_long_fails(stage: Stage) -> None:
    cast = stage("TFJob", {"Worker": (1, "Never")}, activeDeadlineSeconds=1)
    job = cast.until(lambda job: job.finished)
    assert (job.phase, job.reason) == (Phase.FAILED, "DeadlineExceeded")
    assert job.started_at is not None
    assert job.deadline_at == job.started_at + 1


def test_a_role_without_requests_is_not_limited(stage: Stage) -> None:
    cast = stage("TFJob", {"Worker": (1, "Never")})
    cast.ask("worker-0")
    resources = cast.job.spec.roles[0].resources
    assert (resources.cpu_millis, resources.memory_mib) == (0, 0)


def test_a_role_without_a_command_fails_at_once_and_for_good(service: LocalService) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "any"}]}}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "no-command"},
        "spec": {"tfReplicaSpecs": {"Worker": {"restartPolicy": "OnFailure", "template": template}}},
    }
    (translation,) = read_plain(document)
    job = service.client.submit(translation.spec)
    ended = service.client.wait(job.id, timeout=DEADLINE_SECONDS)
    assert (ended.phase, ended.attempt) == (Phase.FAILED, 1)
    assert "runs commands, not images" in ended.message
