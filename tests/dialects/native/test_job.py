"""The job file: what it means, what it inherits, and that its canonical form reads back."""

import json

import pytest
import yaml

from gangline.dialects.native import SIZES, job_from_plain, job_to_plain, read_job, read_jobs
from gangline.errors import InvalidInputError
from gangline.model import (
    DataMove,
    Framework,
    Policy,
    Prefer,
    Resources,
    Restart,
    Retry,
    RoleName,
    Success,
    Toleration,
    Within,
)

TRAIN = ("python", "train.py")
WHOLE = """
apiVersion: gangline.dev/v1
kind: Job
metadata: {name: mnist, queue: research, priority: high, tenant: vision, labels: {team: seven, year: 2024}}
spec:
  framework: parameter-server
  image: acme/mnist:1
  code: .
  env: {EPOCHS: 10, RATE: 0.10, MODE: fast}
  roles:
    chief: {command: [python, train.py, --layers, 3]}
    ps: {resources: {cpu: 500m, memory: 2G}, restart: replica}
    worker: {replicas: 5, min: 2, max: 16, port: 3000, resources: {cpu: 1, memory: 1Gi, gpu: 0.5, rdma/hca: 1}}
  data:
    inputs:
      - {from: "s3://bucket/mnist", to: $DATA_DIR, store: lake, include: ["*.gz"], exclude: ["old/*"], unpack: true}
    outputs: [{from: $RESULT_DIR, to: "s3://bucket/results/$JOB_NAME"}]
  policy: {max_attempts: 3, max_replica_restarts: 7, restart: replica, retry: signals, success: all, backoff: 2s,
           backoff_factor: 1.5, backoff_limit: 1m, retry_for: 30m, deadline: 2h, ttl: 7d, grace: 45,
           expected: 1h30m, preemptible: false}
  placement: {prefer: spread, within: rack, within_required: false, gpu_type: [h200, a100], node_selector: {disk: ssd},
              apart: node, near: {app: cache}, away: {team: other},
              tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]}
"""


def minimal(**spec: object) -> dict[str, object]:
    return {"metadata": {"name": "job"}, "spec": {"command": list(TRAIN), **spec}}


class TestWholeFile:
    job = read_job(WHOLE, file="job.yaml")

    def test_metadata_is_read(self) -> None:
        assert (self.job.name, self.job.queue, self.job.priority, self.job.tenant) == (
            "mnist",
            "research",
            75,
            "vision",
        )
        assert self.job.labels == {"team": "seven", "year": "2024"}

    def test_numbers_in_the_environment_keep_the_text_they_were_written_as(self) -> None:
        assert self.job.env == {"EPOCHS": "10", "RATE": "0.10", "MODE": "fast"}

    def test_each_role_is_read(self) -> None:
        chief, ps, worker = self.job.roles
        assert chief.command == ("python", "train.py", "--layers", "3")
        assert chief.resources == Resources(cpu_millis=1000)
        assert (ps.resources.cpu_millis, ps.resources.memory_mib) == (500, 1908)
        assert (ps.command, ps.restart) == (("python", "-m", "gangline.ps"), Restart.REPLICA)
        assert (worker.replicas, worker.least, worker.most, worker.port) == (5, 2, 16, 3000)
        assert worker.resources == Resources(cpu_millis=1000, memory_mib=1024, gpu_millis=500, extended={"rdma/hca": 1})

    def test_a_role_without_a_command_runs_what_the_lead_runs(self) -> None:
        assert self.job.role(RoleName("worker")).command == self.job.role(RoleName("chief")).command

    def test_policy_and_placement_and_data_are_read(self) -> None:
        assert self.job.policy == Policy(
            max_attempts=3,
            max_replica_restarts=7,
            restart=Restart.REPLICA,
            retry=Retry.SIGNALS,
            success=Success.ALL,
            backoff_seconds=2,
            backoff_factor=1.5,
            backoff_limit_seconds=60,
            retry_for_seconds=1800,
            deadline_seconds=7200,
            ttl_seconds=604800,
            grace_seconds=45,
            expected_seconds=5400,
            preemptible=False,
        )
        assert self.job.placement.prefer is Prefer.SPREAD
        assert self.job.placement.gpu_types == ("h200", "a100")
        assert (self.job.placement.apart, self.job.placement.near) == ("node", {"app": "cache"})
        assert self.job.placement.away == {"team": "other"}
        assert self.job.placement.tolerations == (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)
        assert self.job.inputs == (
            DataMove(
                "s3://bucket/mnist", "$DATA_DIR", store="lake", include=("*.gz",), exclude=("old/*",), unpack=True
            ),
        )
        assert self.job.outputs == (DataMove("$RESULT_DIR", "s3://bucket/results/$JOB_NAME"),)

    def test_the_canonical_form_reads_back_to_an_equal_job(self) -> None:
        plain = job_to_plain(self.job)
        assert job_from_plain(plain) == self.job
        assert read_job(json.dumps(plain)) == self.job
        assert read_job(yaml.safe_dump(plain, sort_keys=False)) == self.job


class TestShortForms:
    def test_a_bare_command_is_one_worker(self) -> None:
        job = job_from_plain(minimal(replicas=3, resources={"gpu": 1}))
        (worker,) = job.roles
        assert (worker.name, worker.replicas, worker.command, worker.resources.gpu_millis) == ("worker", 3, TRAIN, 1000)

    def test_a_number_is_a_role_of_that_many_replicas(self) -> None:
        job = job_from_plain(minimal(roles={"worker": 5, "chief": None}))
        assert [(role.name, role.replicas, role.command) for role in job.roles] == [
            ("worker", 5, TRAIN),
            ("chief", 1, TRAIN),
        ]

    def test_a_role_with_resources_of_its_own_inherits_none(self) -> None:
        job = job_from_plain(minimal(resources={"gpu": 1}, roles={"worker": 2, "ps": {"resources": {"cpu": 2}}}))
        assert job.role(RoleName("worker")).resources.gpu_millis == 1000
        assert job.role(RoleName("ps")).resources == Resources(cpu_millis=2000)

    def test_volumes_of_the_spec_are_those_of_every_role_without_its_own(self) -> None:
        own, shared = [{"name": "own", "at": "/own"}], [{"name": "shared", "at": "/shared", "read_only": True}]
        job = job_from_plain(minimal(volumes=shared, roles={"worker": 2, "ps": {"volumes": own}}))
        mounts = {
            role.name: json.loads(role.pod_template_json or "{}")["spec"]["containers"][0]["volumeMounts"]
            for role in job.roles
        }
        assert mounts == {
            "worker": [{"name": "shared", "mountPath": "/shared", "readOnly": True}],
            "ps": [{"name": "own", "mountPath": "/own"}],
        }

    def test_a_command_of_one_string_is_split_like_a_shell_would(self) -> None:
        job = job_from_plain({"metadata": {"name": "job"}, "spec": {"command": "python train.py --note 'two words'"}})
        assert job.roles[0].command == (*TRAIN, "--note", "two words")

    def test_workers_of_an_mpi_launcher_idle(self) -> None:
        job = job_from_plain(minimal(framework="mpi", roles={"launcher": {"command": ["mpirun", "x"]}, "worker": 2}))
        assert job.role(RoleName("worker")).command == ("sleep", "infinity")

    def test_an_mpi_job_without_a_launcher_runs_its_command_in_the_workers(self) -> None:
        assert job_from_plain(minimal(framework="mpi", roles={"worker": 2})).roles[0].command == TRAIN

    def test_a_gpu_may_be_asked_for_by_its_plugin_name(self) -> None:
        assert job_from_plain(minimal(resources={"nvidia.com/gpu": 2})).roles[0].resources.gpu_millis == 2000

    @pytest.mark.parametrize(("name", "want"), [("low", 25), ("normal", 50), ("critical", 100), (7, 7), (1000, 1000)])
    def test_priority_is_a_word_or_a_number(self, name: object, want: int) -> None:
        data = minimal()
        data["metadata"] = {"name": "job", "priority": name}
        assert job_from_plain(data).priority == want

    def test_namespace_is_the_tenant(self) -> None:
        data = minimal()
        data["metadata"] = {"name": "job", "namespace": "vision"}
        assert job_from_plain(data).tenant == "vision"

    def test_a_size_expands_and_resources_refine_it(self) -> None:
        job = job_from_plain(minimal(size="1-v100", resources={"memory": "32Gi"}))
        assert job.roles[0].resources == Resources(cpu_millis=26_000, memory_mib=32 * 1024, gpu_millis=1000)

    def test_a_user_may_bring_sizes(self) -> None:
        own = {"tiny": Resources(cpu_millis=100, memory_mib=64)}
        assert job_from_plain(minimal(size="tiny"), sizes=own).roles[0].resources == own["tiny"]

    @pytest.mark.parametrize(
        ("size", "cpus", "gib", "gpus"),
        [
            ("1-k80", 4, 24, 1),
            ("2-k80", 8, 48, 2),
            ("4-k80", 16, 96, 4),
            ("1-p100", 8, 24, 1),
            ("2-p100", 16, 48, 2),
            ("1-v100", 26, 24, 1),
            ("2-v100", 42, 48, 2),
        ],
    )
    def test_the_built_in_sizes(self, size: str, cpus: int, gib: int, gpus: int) -> None:
        assert SIZES[size] == Resources(cpu_millis=cpus * 1000, memory_mib=gib * 1024, gpu_millis=gpus * 1000)


class TestSyntax:
    def test_anchors_and_merge_keys_are_followed(self) -> None:
        job = read_job("""
metadata: {name: job}
spec:
  command: python train.py
  roles:
    chief: &shared {resources: {cpu: 2}, env: {A: "1"}}
    worker: {<<: *shared, replicas: 4, env: {B: "2"}}
""")
        worker = job.role(RoleName("worker"))
        assert (worker.replicas, worker.resources.cpu_millis, worker.env) == (4, 2000, {"B": "2"})

    def test_a_file_may_hold_several_jobs(self) -> None:
        text = "metadata: {name: a}\nspec: {command: x}\n---\n---\nmetadata: {name: b}\nspec: {command: x}\n"
        assert [job.name for job in read_jobs(text)] == ["a", "b"]
        with pytest.raises(InvalidInputError, match="holds 2 jobs; expected one job"):
            read_job(text)

    def test_words_that_old_yaml_calls_numbers_stay_text(self) -> None:
        job = read_job("metadata: {name: a}\nspec: {command: x, env: {AT: 12:30:45, DAY: 2024-01-02, MASK: 0755}}")
        assert job.env == {"AT": "12:30:45", "DAY": "2024-01-02", "MASK": "0755"}

    def test_every_framework_is_known_by_its_name(self) -> None:
        for framework in Framework:
            assert job_from_plain(minimal(framework=framework.value)).framework is framework


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("metadata: {name: a, queue: red, priority: high}\nspec: {command: x}\n", id="metadata"),
        pytest.param("metadata: {name: a}\nspec: {command: x, queue: red, priority: high}\n", id="spec"),
        pytest.param("metadata: {name: a, queue: red}\nspec: {command: x, queue: red, priority: 75}\n", id="both"),
    ],
)
def test_queue_and_priority_may_stand_in_metadata_or_in_spec(text: str) -> None:
    job = read_job(text)
    assert (job.queue, job.priority) == ("red", 75)


def test_gpus_are_asked_for_by_their_memory_and_by_their_slices() -> None:
    text = "metadata: {name: j}\nspec: {command: x, resources: {gpu_memory: 20Gi, mig-1g.5gb: 2}}\n"
    resources = read_job(text).roles[0].resources
    assert (resources.gpu_memory_mib, resources.gpu_millis) == (20480, 0)
    assert resources.extended == {"nvidia.com/mig-1g.5gb": 2}
    assert job_from_plain(job_to_plain(read_job(text))) == read_job(text)


def test_a_part_of_a_gpu_is_not_asked_for_twice() -> None:
    with pytest.raises(InvalidInputError, match="asked for twice"):
        read_job("metadata: {name: j}\nspec: {command: x, resources: {gpu: 0.5, gpu_memory: 20Gi}}\n")


def test_levels_are_nested_and_bind_roles_too() -> None:
    job = read_job("""
metadata: {name: j}
spec:
  command: x
  placement: {within: [zone, {level: rack, required: false}]}
  roles:
    stage: {replicas: 8, min: 4, groups: 4, priority: low, preemptible: false, placement: {within: node}}
""")
    assert job.placement.levels == (Within("zone"), Within("rack", required=False))
    (stage,) = job.roles
    assert (stage.groups, stage.least, stage.within, stage.placement) == (4, 4, (Within("node"),), None)
    assert (stage.priority, stage.preemptible) == (25, False)
