"""The options of the command line as a job."""

import pytest

from gangline.dialects.native import ShortForm, derived_name, job_from_short_form, pairs
from gangline.errors import InvalidInputError
from gangline.model import Framework, Resources, RoleName

COMMAND = ("python", "train.py")


def form(**options: object) -> ShortForm:
    return ShortForm(command=COMMAND, suffix="7f3a", **options)


def test_workers_and_servers_from_options() -> None:
    job = job_from_short_form(form(workers=5, gpus="1", cpu="2", memory="4Gi", ps=1, name="x"))
    worker, ps = job.role(RoleName("worker")), job.role(RoleName("ps"))
    assert (job.name, job.framework) == ("x", Framework.PARAMETER_SERVER)
    assert (worker.replicas, worker.command) == (5, COMMAND)
    assert worker.resources == Resources(cpu_millis=2000, memory_mib=4096, gpu_millis=1000)
    assert ps.resources == Resources(cpu_millis=2000, memory_mib=4096)
    assert ps.command == ("python", "-m", "gangline.ps")


def test_everything_else_is_carried_over() -> None:
    job = job_from_short_form(
        form(
            queue="research",
            tenant="vision",
            priority="75",
            labels={"a": "b"},
            env={"E": "1"},
            image="i",
            code=".",
            size="1-p100",
            min_workers=1,
            workers=2,
            max_workers=4,
            max_attempts=3,
            deadline="2h",
            ttl="7d",
            gpu_types=("h200",),
            chief=True,
        )
    )
    assert (job.queue, job.tenant, job.priority, job.labels, job.env) == (
        "research",
        "vision",
        75,
        {"a": "b"},
        {"E": "1"},
    )
    assert (job.image, job.code, job.placement.gpu_types) == ("i", ".", ("h200",))
    assert (job.policy.max_attempts, job.policy.deadline_seconds, job.policy.ttl_seconds) == (3, 7200, 604800)
    assert [(role.name, role.least, role.replicas, role.most) for role in job.roles] == [
        ("chief", 1, 1, 1),
        ("worker", 1, 2, 4),
    ]


def test_an_mpi_job_gets_a_launcher_that_runs_the_command() -> None:
    job = job_from_short_form(form(framework="mpi", workers=4, gpus="1"))
    launcher, worker = job.roles
    assert (launcher.name, launcher.command, launcher.resources.gpu_millis) == ("launcher", COMMAND, 0)
    assert (worker.replicas, worker.command, worker.resources.gpu_millis) == (4, ("sleep", "infinity"), 1000)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (("python", "train.py"), "train-7f3a"),
        (("python3", "-u", "/code/My_Model.py", "--x"), "my-model-7f3a"),
        (("python", "-m", "pkg.mnist"), "mnist-7f3a"),
        (("torchrun", "--nproc-per-node", "2", "ddp.py"), "ddp-7f3a"),
        (("/usr/bin/true",), "true-7f3a"),
        (("***",), "job-7f3a"),
        (("x" * 100,), "x" * 58 + "-7f3a"),
    ],
)
def test_a_name_is_derived_from_the_command(command: tuple[str, ...], want: str) -> None:
    assert derived_name(command, "7f3a") == want
    assert job_from_short_form(ShortForm(command=command, suffix="7f3a")).name == want


@pytest.mark.parametrize(
    ("options", "field", "suggestion"),
    [
        ({"memory": "4"}, "--memory", None),
        ({"cpu": "many"}, "--cpu", None),
        ({"cpu": "many", "ps": 1}, "--cpu", None),
        ({"workers": 0}, "--workers", None),
        ({"min_workers": 2}, "--min-workers", None),
        ({"ps": -1}, "--ps", None),
        ({"framework": "tensorflo"}, "--framework", "tensorflow"),
        ({"size": "1-v10"}, "--size", "1-v100"),
        ({"priority": "hihg"}, "--priority", "high"),
        ({"name": "No Name"}, "--name", None),
        ({"queue": "Q"}, "--queue", None),
        ({"deadline": "soon"}, "--deadline", None),
        ({"env": {"": "x"}}, "--env", None),
        ({"gpu_types": ("h\0",)}, "--gpu-type", None),
    ],
)
def test_a_refusal_names_the_option(options: dict[str, object], field: str, suggestion: str | None) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        job_from_short_form(form(**options))
    assert (refusal.value.field, refusal.value.suggestion) == (field, suggestion)


def test_a_command_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="no command; expected it after '--'"):
        job_from_short_form(ShortForm(command=(), suffix="a"))


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert pairs(("A=1", "B=x=y", "C="), "--env") == {"A": "1", "B": "x=y", "C": ""}
    with pytest.raises(InvalidInputError, match="--env: 'A' is not a pair; expected NAME=VALUE"):
        pairs(("A",), "--env")
