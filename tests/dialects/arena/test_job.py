"""Arena's flags as jobs."""

import json
from collections.abc import Mapping, Sequence

import pytest

from gangline.dialects import CleanPods, Translation
from gangline.dialects.arena import MODES, OPTIONS, VERB_NAMES, Verb, job_from_options, options_of
from gangline.errors import InvalidInputError
from gangline.model import DataMove, Framework, Resources, Restart, RoleName, Success, Toleration

COMMAND = ("python", "train.py")


def submit(verb: Verb, command: Sequence[str] = COMMAND, **options: object) -> Translation:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return job_from_options(verb, named, command, suffix="7f3a")


def roles(translation: Translation) -> list[tuple[str, int]]:
    return [(role.name, role.replicas) for role in translation.spec.roles]


class TestRoles:
    def test_a_lone_tensorflow_worker_is_a_chief(self) -> None:
        assert roles(submit(Verb.TENSORFLOW)) == [("chief", 1)]

    def test_every_tensorflow_role(self) -> None:
        translation = submit(
            Verb.TENSORFLOW,
            workers=2,
            ps=1,
            chief=True,
            evaluator=True,
            gpus=1,
            ps_gpus=0,
            worker_cpu="4",
            worker_memory="8Gi",
            ps_cpu="2",
            ps_memory="1Gi",
            ps_port=2224,
            worker_image="w",
            image="all",
        )
        spec = translation.spec
        assert roles(translation) == [("chief", 1), ("ps", 1), ("worker", 2), ("evaluator", 1)]
        assert spec.role(RoleName("worker")).resources == Resources(cpu_millis=4000, memory_mib=8192, gpu_millis=1000)
        assert spec.role(RoleName("ps")).resources == Resources(cpu_millis=2000, memory_mib=1024)
        assert (spec.role(RoleName("ps")).port, spec.role(RoleName("worker")).image, spec.image) == (2224, "w", "all")
        assert (spec.framework, spec.name) == (Framework.TENSORFLOW, "train-7f3a")

    def test_a_worker_that_is_alone_is_a_chief_of_whom_the_flags_of_workers_speak(self) -> None:
        flags = {"worker_cpu": "4", "worker_memory": "8Gi", "worker_image": "w", "worker_port": 3333}
        (chief,) = submit(Verb.TENSORFLOW, workers=1, worker_selector=["zone=a"], **flags).spec.roles
        assert chief.resources == Resources(cpu_millis=4000, memory_mib=8192)
        assert (chief.name, chief.image, chief.port) == ("chief", "w", 3333)
        assert '"nodeSelector":{"zone":"a"}' in (chief.pod_template_json or "")
        with pytest.raises(InvalidInputError) as refusal:
            submit(Verb.TENSORFLOW, workers=1, worker_cpu="many")
        assert refusal.value.field == "--worker-cpu"

    @pytest.mark.parametrize("verb", list(Verb))
    def test_what_nobody_asks_for_is_nothing(self, verb: Verb) -> None:
        for role in submit(verb, workers=2, tensorboard=True).spec.roles:
            assert role.resources == Resources(), role.name

    @pytest.mark.parametrize("command", [[], [""], ["  "]])
    def test_a_job_without_a_command_is_refused(self, command: list[str]) -> None:
        with pytest.raises(InvalidInputError, match="there is no command"):
            submit(Verb.TENSORFLOW, command)

    def test_pytorch_counts_its_master_among_the_workers(self) -> None:
        assert roles(submit(Verb.PYTORCH, workers=3)) == [("master", 1), ("worker", 2)]
        assert roles(submit(Verb.PYTORCH)) == [("master", 1)]

    @pytest.mark.parametrize("verb", [Verb.MPI, Verb.HOROVOD])
    def test_a_launcher_runs_the_command_and_workers_wait(self, verb: Verb) -> None:
        translation = submit(verb, ["mpirun python train.py"], workers=2, gpus=1, cpu="2", memory="1Gi", name="h")
        launcher, worker = translation.spec.roles
        assert launcher.command == ("sh", "-c", "mpirun python train.py")
        assert launcher.resources.gpu_millis == 0
        assert (worker.replicas, worker.command) == (2, ("sleep", "infinity"))
        assert worker.resources == Resources(cpu_millis=2000, memory_mib=1024, gpu_millis=1000)

    def test_a_tensorboard_is_a_service_of_its_own(self) -> None:
        translation = submit(Verb.TENSORFLOW, tensorboard=True, logdir="/logs", tensorboard_image="tb")
        board = translation.spec.role(RoleName("tensorboard"))
        assert board.command[0] == "sh"
        assert board.command[3:] == ("tensorboard", "/logs")
        assert (board.image, board.restart, board.port) == ("tb", Restart.REPLICA, 6006)


class TestEverythingElse:
    def test_policy_placement_and_labels(self) -> None:
        translation = submit(
            Verb.TENSORFLOW,
            workers=2,
            priority="high-priority",
            queue="research",
            label=["team=a"],
            env=["A=1", "B=x=y"],
            selector=["disk=ssd"],
            toleration=["gpu=true:NoSchedule", "spot", "all", "x=y:NoExecute,Equal"],
            clean_task_policy="None",
            running_timeout="2h22m",
            ttl_after_finished="7d",
            retry=2,
            success_policy="AllWorkers",
            gang=True,
            device=["amd.com/gpu=2"],
            rdma=True,
        )
        spec = translation.spec
        assert (spec.priority, spec.queue, spec.labels, spec.env) == (
            75,
            "research",
            {"team": "a"},
            {"A": "1", "B": "x=y"},
        )
        assert spec.placement.node_selector == {"disk": "ssd"}
        assert spec.placement.tolerations == (
            Toleration(key="gpu", value="true", effect="NoSchedule"),
            Toleration(key="spot", operator="Exists"),
            Toleration(operator="Exists"),
            Toleration(key="x", value="y", effect="NoExecute"),
        )
        assert translation.clean_pods is CleanPods.NONE
        assert (spec.policy.deadline_seconds, spec.policy.ttl_seconds, spec.policy.max_attempts) == (8520, 604800, 3)
        assert spec.policy.success is Success.ALL
        worker = spec.role(RoleName("worker"))
        assert (worker.resources.gpu_millis, worker.resources.extended) == (2000, {"rdma/hca": 1})

    def test_a_numeric_priority(self) -> None:
        assert submit(Verb.MPI, priority="7").spec.priority == 7

    def test_code_is_fetched_like_data(self) -> None:
        spec = submit(Verb.TENSORFLOW, sync_mode="git", sync_source="https://example.com/a/mnist.git").spec
        assert spec.inputs == (DataMove("git+https://example.com/a/mnist.git", "code/mnist"),)

    def test_volumes_and_directories_become_a_pod(self) -> None:
        translation = submit(
            Verb.TENSORFLOW,
            image="i",
            data=["claim:/data"],
            data_dir=["/raw"],
            working_dir="/src",
            chief_selector=["a=b"],
        )
        (chief,) = translation.spec.roles
        assert json.loads(chief.pod_template_json or "") == {
            "spec": {
                "containers": [
                    {
                        "name": "tensorflow",
                        "image": "i",
                        "command": list(COMMAND),
                        "workingDir": "/src",
                        "volumeMounts": [
                            {"name": "data-0", "mountPath": "/data"},
                            {"name": "data-dir-0", "mountPath": "/raw"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "data-0", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "data-dir-0", "hostPath": {"path": "/raw"}},
                ],
                "nodeSelector": {"a": "b"},
            }
        }
        assert len(translation.local_notes) == 2

    def test_what_only_pods_have_becomes_a_pod_and_is_not_used_on_one_machine(self) -> None:
        translation = submit(
            Verb.TENSORFLOW,
            workers=2,
            annotation=["a=b"],
            image_pull_secret=["registry"],
            image_pull_policy="Never",
            share_memory="2Gi",
            host_network=True,
            worker_cpu_limit="4",
        )
        (worker,) = translation.spec.roles
        assert json.loads(worker.pod_template_json or "") == {
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "containers": [
                    {
                        "name": "tensorflow",
                        "command": list(COMMAND),
                        "imagePullPolicy": "Never",
                        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                        "resources": {"limits": {"cpu": "4"}},
                    }
                ],
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}],
                "imagePullSecrets": [{"name": "registry"}],
                "hostNetwork": True,
            },
        }
        (note,) = translation.local_notes
        assert note.endswith("of pods on a cluster, not used here")
        assert "--worker-cpu-limit" in note

    def test_no_pod_is_made_up_when_none_is_needed(self) -> None:
        assert submit(Verb.TENSORFLOW, image="i").spec.roles[0].pod_template_json is None

    def test_processes_of_each_worker(self) -> None:
        assert submit(Verb.PYTORCH, nproc_per_node="4").spec.processes == 4

    def test_a_quoted_command_runs_in_the_chosen_shell(self) -> None:
        spec = submit(Verb.TENSORFLOW, ["cd /src && python train.py"], shell="bash").spec
        assert spec.roles[0].command == ("bash", "-c", "cd /src && python train.py")
        assert spec.name == "train-7f3a"

    @pytest.mark.parametrize(("verb", "want"), [(Verb.TENSORFLOW, CleanPods.RUNNING), (Verb.MPI, CleanPods.ALL)])
    def test_what_is_cleaned_by_default(self, verb: Verb, want: CleanPods) -> None:
        assert submit(verb).clean_pods is want


@pytest.mark.parametrize(
    ("verb", "options", "field", "suggestion"),
    [
        (Verb.TENSORFLOW, {"worker_cpu": "x", "workers": 2}, "--worker-cpu", None),
        (Verb.TENSORFLOW, {"ps_memory": "4", "ps": 1}, "--ps-memory", None),
        (Verb.PYTORCH, {"cpu": "x"}, "--cpu", None),
        (Verb.TENSORFLOW, {"running_timeout": "soon"}, "--running-timeout", None),
        (Verb.TENSORFLOW, {"name": "No"}, "--name", None),
        (Verb.TENSORFLOW, {"queue": "No"}, "--queue", None),
        (Verb.TENSORFLOW, {"workers": -1}, "--workers", None),
        (Verb.MPI, {"workers": 0}, "--workers", None),
        (Verb.TENSORFLOW, {"env": ["A"]}, "--env", None),
        (Verb.TENSORFLOW, {"clean_task_policy": "Runing"}, "--clean-task-policy", "Running"),
        (Verb.TENSORFLOW, {"success_policy": "AllWorker"}, "--success-policy", "AllWorkers"),
        (Verb.TENSORFLOW, {"toleration": ["a:NoSchedul"]}, "--toleration", "NoSchedule"),
        (Verb.TENSORFLOW, {"sync_mode": "hdfs"}, "--sync-mode", None),
        (Verb.TENSORFLOW, {"sync_mode": "git"}, "--sync-source", None),
        (Verb.TENSORFLOW, {"data": "claim"}, "--data", None),
        (Verb.TENSORFLOW, {"data_dir": "raw"}, "--data-dir", None),
        (Verb.MPI, {"evaluator": True}, "--evaluator", None),
        (Verb.TENSORFLOW, {"worker_cpus": "1"}, "--worker-cpus", "--worker-cpu"),
    ],
)
def test_a_refusal_names_the_flag(
    verb: Verb, options: Mapping[str, object], field: str, suggestion: str | None
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        submit(verb, **options)
    assert (refusal.value.field, refusal.value.suggestion) == (field, suggestion)


def test_a_command_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="no command"):
        submit(Verb.TENSORFLOW, ())


class TestTable:
    def test_names_are_unique_within_a_verb(self) -> None:
        for verb in Verb:
            names = [name for option in options_of(verb) for name in (option.name, *option.old_names)]
            assert len(set(names)) == len(names)

    @pytest.mark.parametrize(
        ("old", "verb", "name"),
        [
            ("workerCpu", Verb.TENSORFLOW, "worker-cpu"),
            ("workerCpu", Verb.HOROVOD, "cpu"),
            ("workerMemory", Verb.TENSORFLOW, "worker-memory"),
            ("workerImage", Verb.TENSORFLOW, "worker-image"),
            ("workerPort", Verb.TENSORFLOW, "worker-port"),
            ("psCpu", Verb.TENSORFLOW, "ps-cpu"),
            ("psImage", Verb.TENSORFLOW, "ps-image"),
            ("sshPort", Verb.HOROVOD, "ssh-port"),
            ("workingDir", Verb.MPI, "working-dir"),
            ("ChiefCpu", Verb.TENSORFLOW, "chief-cpu"),
            ("chiefPort", Verb.TENSORFLOW, "chief-port"),
            ("cleanTaskPolicy", Verb.TENSORFLOW, "clean-task-policy"),
            ("syncMode", Verb.PYTORCH, "sync-mode"),
            ("dataDir", Verb.PYTORCH, "data-dir"),
        ],
    )
    def test_camel_case_names_of_old(self, old: str, verb: Verb, name: str) -> None:
        assert [option.name for option in options_of(verb) if old in option.old_names] == [name]

    def test_modes_and_verbs(self) -> None:
        assert MODES == {"tensorflow": Verb.TENSORFLOW, "horovod": Verb.HOROVOD}
        assert set(VERB_NAMES.values()) == set(Verb)
        assert all(option.help for option in OPTIONS)
