"""Kubeflow jobs into the model: defaults, restart policies, run policy, what each kind adds."""

from collections.abc import Callable
from typing import Any

import pytest

from gangline.dialects import CleanPods, Translation, read, read_plain
from gangline.dialects.kubeflow import ENDLESS, KINDS
from gangline.dialects.native import job_from_plain, job_to_plain
from gangline.model import (
    Clean,
    Framework,
    Processes,
    Restart,
    Retry,
    RoleName,
    Success,
)

Builder = Callable[..., dict[str, Any]]


def translate(data: object, **options: bool) -> Translation:
    (translation,) = read_plain(data, **options)
    return translation


class TestEveryKind:
    @pytest.mark.parametrize(
        ("kind", "type_", "framework", "port", "restart", "success"),
        [
            ("TFJob", "Worker", Framework.TENSORFLOW, 2222, Restart.NEVER, Success.LEAD),
            ("PyTorchJob", "Worker", Framework.PYTORCH, 23456, Restart.GANG, Success.ALL),
            ("MPIJob", "Launcher", Framework.MPI, 9999, Restart.NEVER, Success.LEAD),
            ("XGBoostJob", "Master", Framework.XGBOOST, 9999, Restart.NEVER, Success.LEAD),
            ("PaddleJob", "Worker", Framework.PADDLE, 36543, Restart.GANG, Success.ALL),
            ("JAXJob", "Worker", Framework.JAX, 6666, Restart.NEVER, Success.ALL),
        ],
    )
    def test_what_is_not_said_is_as_upstream_has_it(
        self,
        job: Builder,
        replica: Builder,
        kind: str,
        type_: str,
        framework: Framework,
        port: int,
        restart: Restart,
        success: Success,
    ) -> None:
        translation = translate(job(kind, {type_: replica(kind, None)}))
        spec = translation.spec
        (role,) = spec.roles
        assert (spec.name, spec.tenant, spec.framework) == ("mnist", "vision", framework)
        assert (role.name, role.replicas, role.port, role.restart) == (type_.lower(), 1, port, restart)
        assert (role.command, role.image) == (("python", "train.py"), "acme/train:1")
        assert (spec.policy.success, spec.policy.max_attempts) == (
            success,
            1 if restart is Restart.NEVER else ENDLESS + 1,
        )
        assert (spec.origin, translation.clean_pods, translation.suspended) == (
            f"kubeflow.org/v1 {kind}",
            CleanPods.NONE,
            False,
        )

    def test_a_translated_job_survives_our_own_form(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"Chief": replica(), "PS": replica(), "Worker": replica(count=3)})).spec
        assert job_from_plain(job_to_plain(spec)) == spec

    def test_replica_types_are_recognised_in_any_case(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"WORKER": replica(count=2), "ps": replica()})).spec
        assert [(role.name, role.replicas) for role in spec.roles] == [("ps", 1), ("worker", 2)]

    def test_a_list_is_read_item_by_item(self, job: Builder, replica: Builder) -> None:
        items = [job("TFJob", {"Worker": replica()}, name=name) for name in ("a", "b")]
        assert [found.spec.name for found in read_plain({"kind": "List", "apiVersion": "v1", "items": items})] == [
            "a",
            "b",
        ]

    def test_types_without_replicas_are_left_out(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"Worker": replica(), "PS": replica(count=0)})).spec
        assert [role.name for role in spec.roles] == ["worker"]


class TestRestart:
    @pytest.mark.parametrize(
        ("policy", "restart", "retry", "attempts"),
        [
            ("Never", Restart.NEVER, Retry.ANY, 1),
            ("OnFailure", Restart.GANG, Retry.ANY, ENDLESS + 1),
            ("Always", Restart.GANG, Retry.ALWAYS, ENDLESS + 1),
            ("ExitCode", Restart.GANG, Retry.SIGNALS, ENDLESS + 1),
        ],
    )
    def test_a_restart_policy_says_who_is_started_again_and_how_often(
        self, job: Builder, replica: Builder, policy: str, restart: Restart, retry: Retry, attempts: int
    ) -> None:
        spec = translate(job("TFJob", {"Worker": replica(restart=policy)})).spec
        assert (spec.roles[0].restart, spec.retry_of(spec.roles[0].name), spec.policy.max_attempts) == (
            restart,
            retry,
            attempts,
        )

    def test_strict_restarts_replicas_one_by_one(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"Worker": replica(restart="OnFailure")}), strict=True).spec
        assert spec.roles[0].restart is Restart.REPLICA

    @pytest.mark.parametrize(
        ("kind", "policies", "want"),
        [
            pytest.param("TFJob", {"Worker": "Always"}, ["Worker"], id="the first worker decides"),
            pytest.param("TFJob", {"Chief": "Never", "Worker": "Always", "PS": "Always"}, [], id="the chief decides"),
            pytest.param("TFJob", {"Worker": "Never", "PS": "Always"}, [], id="servers decide nothing"),
            pytest.param("PyTorchJob", {"Master": "Always", "Worker": "Never"}, ["Master"], id="the master decides"),
        ],
    )
    def test_a_job_that_can_never_succeed_is_remarked_on(
        self, job: Builder, replica: Builder, kind: str, policies: dict[str, str], want: list[str]
    ) -> None:
        replicas = {type_: replica(kind, restart=policy) for type_, policy in policies.items()}
        notes = translate(job(kind, replicas)).notes
        assert [note.partition(":")[0] for note in notes if "never succeeds" in note] == want

    def test_the_backoff_limit_is_a_budget_of_retries(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"Worker": replica(restart="OnFailure")}, runPolicy={"backoffLimit": 3})).spec
        assert (spec.policy.max_attempts, spec.policy.max_replica_restarts) == (4, 3)

    def test_exit_code_counts_for_its_own_replica_type_alone(self, job: Builder, replica: Builder) -> None:
        spec = translate(job("TFJob", {"Worker": replica(restart="ExitCode"), "PS": replica(restart="Always")})).spec
        assert (spec.retry_of(RoleName("worker")), spec.retry_of(RoleName("ps"))) == (Retry.SIGNALS, Retry.ALWAYS)

    @pytest.mark.parametrize(
        ("policy", "strict", "want"),
        [
            ("All", False, Clean.ALL),
            ("Running", False, Clean.RUNNING),
            ("None", False, Clean.NONE),
            ("None", True, Clean.LEAVE),
        ],
    )
    def test_what_still_runs_at_the_end_is_left_alone_only_when_strict(
        self, job: Builder, replica: Builder, policy: str, strict: bool, want: Clean
    ) -> None:
        document = job("TFJob", {"Worker": replica()}, runPolicy={"cleanPodPolicy": policy})
        assert translate(document, strict=strict).spec.policy.clean is want


class TestRunPolicy:
    def test_every_field_of_the_run_policy_is_translated(self, job: Builder, replica: Builder) -> None:
        policy = {
            "cleanPodPolicy": "All",
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 3600,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "schedulingPolicy": {"queue": "research", "priorityClass": "high-priority", "minAvailable": 3},
        }
        translation = translate(job("TFJob", {"Worker": replica(count=3), "PS": replica()}, runPolicy=policy))
        spec = translation.spec
        assert (translation.clean_pods, translation.suspended) == (CleanPods.ALL, True)
        assert translation.managed_by == "kueue.x-k8s.io/multikueue"
        assert (spec.policy.ttl_seconds, spec.policy.deadline_seconds) == (60, 3600)
        assert (spec.queue, spec.priority) == ("research", 75)
        assert (spec.role(RoleName("worker")).least, spec.role(RoleName("worker")).replicas) == (2, 3)

    def test_a_job_that_upstream_would_manage_is_ours(self, job: Builder, replica: Builder) -> None:
        policy = {"managedBy": "kubeflow.org/training-operator"}
        assert translate(job("TFJob", {"Worker": replica()}, runPolicy=policy)).managed_by is None

    def test_an_unknown_priority_class_is_normal_with_a_note(self, job: Builder, replica: Builder) -> None:
        translation = translate(job("TFJob", {"Worker": replica(pod={"priorityClassName": "gold"})}))
        assert translation.spec.priority == 50
        assert "'gold'" in translation.notes[0]


class TestTensorFlow:
    @pytest.mark.parametrize(
        ("types", "policy", "want"),
        [
            (("Worker",), "", Success.LEAD),
            (("Worker",), "AllWorkers", Success.ALL),
            (("Chief", "Worker"), "AllWorkers", Success.LEAD),
            (("Master", "Worker"), "", Success.LEAD),
        ],
    )
    def test_who_decides_success(
        self, job: Builder, replica: Builder, types: tuple[str, ...], policy: str, want: Success
    ) -> None:
        spec = translate(job("TFJob", {type_: replica() for type_ in types}, successPolicy=policy)).spec
        assert spec.policy.success is want

    def test_dynamic_workers_restart_alone(self, job: Builder, replica: Builder) -> None:
        replicas = {"Worker": replica(restart="OnFailure"), "PS": replica()}
        spec = translate(job("TFJob", replicas, enableDynamicWorker=True)).spec
        assert spec.role(RoleName("worker")).restart is Restart.REPLICA
        assert spec.env == {"GANGLINE_TF_DYNAMIC_WORKERS": "1"}

    def test_fields_of_old_stand_in_the_spec(self, job: Builder, replica: Builder) -> None:
        translation = translate(
            job("TFJob", {"Worker": replica()}, version="kubeflow.org/v1beta2", backoffLimit=2, activeDeadlineSeconds=9)
        )
        assert translation.spec.policy.deadline_seconds == 9
        assert translation.clean_pods is CleanPods.RUNNING
        assert "write today apiVersion kubeflow.org/v1" in translation.notes[0]
        assert any("spec.runPolicy.activeDeadlineSeconds" in note for note in translation.notes)

    def test_the_first_version(self) -> None:
        (translation,) = read("""
apiVersion: kubeflow.org/v1alpha1
kind: TFJob
metadata: {name: old}
spec:
  schedulerName: kube-batchd
  terminationPolicy: {chief: {replicaName: WORKER, replicaIndex: 0}}
  replicaSpecs:
  - tfReplicaType: WORKER
    replicas: 2
    template:
      spec:
        restartPolicy: OnFailure
        containers: [{name: tensorflow, image: acme/train, command: [python, train.py]}]
  - tfReplicaType: PS
    tfPort: 2223
    template:
      spec:
        restartPolicy: Never
        containers: [{name: tensorflow, image: acme/train, command: [python, train.py]}]
""")
        spec = translation.spec
        assert [(role.name, role.replicas, role.port, role.restart) for role in spec.roles] == [
            ("ps", 1, 2223, Restart.NEVER),
            ("worker", 2, 2222, Restart.GANG),
        ]
        assert (spec.retry_of(RoleName("worker")), spec.origin) == (Retry.SIGNALS, "kubeflow.org/v1alpha1 TFJob")
        assert "tfReplicaSpecs" in translation.notes[0]
        assert "kube-batchd asks for a gang" in translation.notes[1]


class TestPyTorch:
    def test_elastic_workers_get_bounds_and_a_rendezvous(self, job: Builder, replica: Builder) -> None:
        elastic = {
            "minReplicas": 1,
            "maxReplicas": 4,
            "rdzvBackend": "c10d",
            "rdzvPort": 29400,
            "rdzvId": "x",
            "rdzvConf": [{"key": "timeout", "value": "30"}, {"key": "read", "value": "5"}],
            "maxRestarts": 9,
            "standalone": True,
            "metrics": [],
        }
        translation = translate(
            job("PyTorchJob", {"Worker": replica("PyTorchJob", 2)}, elasticPolicy=elastic, nprocPerNode="2")
        )
        (worker,) = translation.spec.roles
        assert (worker.least, worker.most, worker.port, worker.restart) == (1, 4, 29400, Restart.REPLICA)
        assert translation.spec.policy.success is Success.LEAD
        assert translation.spec.processes == 2
        assert translation.spec.env == {
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ID": "x",
            "PET_RDZV_CONF": "timeout=30,read=5",
            "PET_MAX_RESTARTS": "9",
            "PET_STANDALONE": "1",
        }

    @pytest.mark.parametrize(
        ("policy", "want"),
        [({}, (2, 2)), ({"minReplicas": 1}, (1, 2)), ({"maxReplicas": 5}, (2, 5)), ({"minReplicas": 2}, (2, 2))],
    )
    def test_a_missing_bound_is_the_number_of_replicas(
        self, job: Builder, replica: Builder, policy: dict[str, int], want: tuple[int, int]
    ) -> None:
        (worker,) = translate(job("PyTorchJob", {"Worker": replica("PyTorchJob", 2)}, elasticPolicy=policy)).spec.roles
        assert (worker.least, worker.most) == want

    def test_a_named_rendezvous_host(self, job: Builder, replica: Builder) -> None:
        policy = {"rdzvHost": "etcd", "rdzvPort": 2379, "rdzvBackend": "etcd-v2"}
        spec = translate(job("PyTorchJob", {"Worker": replica("PyTorchJob")}, elasticPolicy=policy)).spec
        assert spec.env["PET_RDZV_ENDPOINT"] == "etcd:2379"

    def test_processes_default_to_auto_and_the_old_name_is_noted(self, job: Builder, replica: Builder) -> None:
        workers = {"Worker": replica("PyTorchJob")}
        assert translate(job("PyTorchJob", workers)).spec.processes is Processes.AUTO
        old = translate(job("PyTorchJob", workers, elasticPolicy={"nProcPerNode": 4}))
        assert old.spec.processes == 4
        assert "deprecated" in old.notes[0]


class TestMpi:
    def test_the_first_version(self, job: Builder, replica: Builder) -> None:
        workers = replica("MPIJob", 2)
        del workers["template"]["spec"]["containers"][0]["command"]
        del workers["template"]["spec"]["containers"][0]["args"]
        translation = translate(
            job(
                "MPIJob", {"Launcher": replica("MPIJob"), "Worker": workers}, slotsPerWorker=2, cleanPodPolicy="Running"
            )
        )
        launcher, worker = translation.spec.roles
        assert (launcher.command, worker.command) == (("python", "train.py"), ("sleep", "infinity"))
        assert (translation.spec.processes, translation.spec.env) == (2, {})
        assert translation.clean_pods is CleanPods.RUNNING

    def test_the_second_version(self, job: Builder, replica: Builder) -> None:
        replicas = {
            "Launcher": replica("MPIJob"),
            "Worker": replica("MPIJob", 2, command=["/usr/sbin/sshd"], args=["-De"]),
        }
        translation = translate(
            job(
                "MPIJob",
                replicas,
                version="kubeflow.org/v2beta1",
                mpiImplementation="Intel",
                runLauncherAsWorker=True,
                sshAuthMountPath="/home/mpiuser/.ssh",
                launcherCreationPolicy="WaitForWorkersReady",
            )
        )
        launcher, worker = translation.spec.roles
        assert (launcher.restart, worker.restart) == (Restart.GANG, Restart.NEVER)
        assert worker.command == ("sleep", "infinity")
        assert "sshd" in (worker.pod_template_json or "")
        assert translation.spec.env == {
            "GANGLINE_MPI_IMPLEMENTATION": "Intel",
            "GANGLINE_MPI_LAUNCHER_WORKS": "1",
        }

    def test_a_launcher_may_be_alone_and_name_its_container(self, job: Builder, replica: Builder) -> None:
        launcher = replica("MPIJob", name="any")
        launcher["template"]["spec"]["containers"].insert(0, {"name": "proxy", "image": "p"})
        spec = translate(job("MPIJob", {"Launcher": launcher}, mainContainer="any")).spec
        assert [role.command for role in spec.roles] == [("python", "train.py")]


def test_an_elastic_paddle_job_has_bounds_and_restarts(job: Builder, replica: Builder) -> None:
    policy = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 5}
    spec = translate(job("PaddleJob", {"Worker": replica("PaddleJob", 2)}, elasticPolicy=policy)).spec
    assert (spec.roles[0].least, spec.roles[0].most, spec.env) == (1, 3, {"PADDLE_MAX_RESTART": "5"})


def test_every_kind_names_its_controller() -> None:
    assert {kind.controller for kind in KINDS.values()} == {
        "tfjob-controller",
        "pytorchjob-controller",
        "mpijob-controller",
        "xgboostjob-controller",
        "paddlejob-controller",
        "jaxjob-controller",
    }
