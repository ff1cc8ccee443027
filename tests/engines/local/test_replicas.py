"""What a replica gets, and how it ends."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.local.keeper.system import cgroups, processes
from gangline.engines.local.layout import Layout
from gangline.engines.local.orders.ordering import LogLimits
from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Framework, Gang, Metric, NodeName, Policy, ReplicaId, Resources, RoleName
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import Program, eventually, place
from tests.engines.local.machinery import LocalSubject, groups_of, marked_processes, shell_gang


@pytest.fixture
async def subject(tmp_path: Path) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


async def run_to_end(subject: LocalSubject, gang: Gang) -> list[ReplicaExited]:
    await subject.engine.run(gang)
    return await subject.news.wait_for(ReplicaExited, count=len(gang.replicas))


async def test_the_environment_says_who_and_where_a_replica_is(
    subject: LocalSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    gang = await shell_gang(subject, "env; pwd", env={"MINE": "1", "LANG": "xx"})
    await run_to_end(subject, gang)
    *pairs, directory = [line.text for line in await subject.lines()]
    environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    job = subject.root / "jobs/job-1"
    want = {
        "JOB_NAME": "mnist",
        "GANGLINE_JOB_ID": "job-1",
        "GANGLINE_ATTEMPT": "1",
        "GANGLINE_INCARNATION": "0",
        "GANGLINE_ROLE": "worker",
        "GANGLINE_GRACE_SECONDS": "1",
        "DATA_DIR": str(job / "data"),
        "RESULT_DIR": str(job / "results"),
        "CHECKPOINT_DIR": str(job / "checkpoints"),
        "CUDA_VISIBLE_DEVICES": "",
        "MINE": "1",
        "LANG": "xx",
    }
    assert {name: environment.get(name) for name in want} == want
    assert "SECRET_TOKEN" not in environment
    home = Path(environment["HOME"])
    assert home.is_relative_to(subject.attempt() / "scratch")
    assert Path(directory) == home / "work"
    assert environment["TMPDIR"] == f"{Layout(subject.root).short_scratch(gang.id)}/{home.name}/tmp"


async def test_many_replicas_listen_on_one_port_at_their_own_addresses(subject: LocalSubject) -> None:
    program = (
        "import os, socket; host, port = os.environ['GANGLINE_ADDRESS'].split(':'); "
        "server = socket.create_server((host, int(port))); print(host, port, flush=True); "
        "import signal; signal.pause()"
    )
    role = make_role(
        command=("python3", "-S", "-c", program), replicas=32, resources=Resources(cpu_millis=50), port=4321
    )
    gang = place(make_spec(roles=(role,)), await subject.node())
    await subject.engine.run(gang)

    async def all_listen() -> bool:
        return len(await subject.lines()) == 32

    await eventually(all_listen)
    lines = [line.text.split() for line in await subject.lines()]
    assert len({host for host, _ in lines}) == 32
    assert {port for _, port in lines} == {"4321"}
    await subject.engine.stop(gang.id, 5.0)
    await subject.news.wait_for(GangStopped)


async def test_two_engines_hand_out_different_addresses(subject: LocalSubject, tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path / "other") as other:
        for each in (subject, other):
            await each.engine.run(await each.gang(each.role("worker", Program.SERVE, replicas=4)))
            await each.news.wait_for(ReplicaStarted, count=4)
        await subject.close()
        third = await shell_gang(other, "true", replicas=4)
        await other.engine.run(Gang(id=third.id._replace(attempt=2), spec=third.spec, replicas=third.replicas))
        await other.news.wait_for(ReplicaExited, count=4)
        orders = [*subject.root.glob("jobs/*/attempts/*/order.json"), *other.root.glob("jobs/*/attempts/*/order.json")]
        addresses = [replica["address"] for order in orders for replica in json.loads(order.read_text())["replicas"]]
        assert len(set(addresses)) == len(addresses) == 12
        await subject.restart()


@pytest.mark.parametrize(
    ("command", "want_code", "want_message"),
    [
        (("pyhton3", "train.py"), 127, "command not found: 'pyhton3'; did you mean 'python3'?"),
        (("./missing.sh",), 127, "command not found: './missing.sh'"),
        (("/etc/passwd",), 126, "'/etc/passwd' cannot be run: it is not executable (chmod +x /etc/passwd)"),
    ],
    ids=["misspelt", "no such file", "not executable"],
)
async def test_a_command_that_cannot_be_run_is_an_exit_with_a_reason(
    subject: LocalSubject, command: tuple[str, ...], want_code: int, want_message: str
) -> None:
    gang = place(make_spec(roles=(make_role(command=command),)), await subject.node())
    (exited,) = await run_to_end(subject, gang)
    assert exited.exit_code == want_code
    assert exited.message.startswith(want_message)
    assert not subject.news.of(ReplicaStarted)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_python_is_found_though_the_path_has_none(subject: LocalSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    gang = place(make_spec(roles=(make_role(command=("python", "-c", "print('found')")),)), await subject.node())
    (exited,) = await run_to_end(subject, gang)
    assert (exited.exit_code, exited.message) == (0, "")


@pytest.mark.parametrize(
    ("script", "want"),
    [
        ("echo fine; echo ' ValueError: no data' >&2; echo >&2; echo done; exit 3", "ValueError: no data"),
        ("echo 'error on the wrong stream'; exit 3", "error on the wrong stream"),
        ("printf '\\033[31mred\\033[0m\\tand \\007loud\\033]0;title\\007' >&2; exit 3", "red and  loud"),
        ("printf ' 10%%\\r 20%%\\rboom' >&2; exit 3", "boom"),
        ("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3", "x" * 500),
        ("exit 3", ""),
        ("echo warning >&2", ""),
    ],
    ids=["standard error", "standard output", "escapes", "progress bar", "long line", "nothing", "success"],
)
async def test_a_failure_says_what_the_program_said_last(subject: LocalSubject, script: str, want: str) -> None:
    (exited,) = await run_to_end(subject, await shell_gang(subject, script))
    assert exited.message == want


FORK = """
import os, time
for _ in range(300):
    if not os.fork():
        time.sleep(60)
        os._exit(0)
"""


async def test_a_program_that_forks_without_end_is_held_and_told_so(tmp_path: Path) -> None:
    if not counts_processes():
        pytest.skip("there are no control groups here that count processes")
    async with LocalSubject.over(tmp_path, most_processes=50) as subject:
        role = make_role(command=(sys.executable, "-I", "-S", "-c", FORK))
        gang = place(make_spec(roles=(role,), policy=Policy(grace_seconds=1.0)), await subject.node())
        (exited,) = await run_to_end(subject, gang)
        assert exited.exit_code == 1
        assert exited.message.startswith("it reached its limit of 50 processes (setting replica_processes): Blocking")
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)
        assert groups_of(subject.attempt()) == []


async def test_without_control_groups_forks_fail_while_the_user_has_four_times_as_many(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path, use_cgroups=False, most_processes=1000) as subject:
        script = "until grep 'Max processes *4000 *4000 ' /proc/self/limits; do sleep 0.05; done"
        await subject.engine.run(await shell_gang(subject, script))  # the limit follows the start
        (exited,) = await subject.news.wait_for(ReplicaExited)
        assert exited.exit_code == 0


def counts_processes() -> bool:
    group = cgroups.make_gang_group("probe")
    if group is None:
        return False
    group.remove()
    return group.processes is not None


async def test_a_signal_is_an_exit_code_and_a_name(subject: LocalSubject) -> None:
    (exited,) = await run_to_end(subject, await shell_gang(subject, "kill -SEGV $$"))
    assert (exited.exit_code, exited.message) == (128 + 11, "ended by SIGSEGV")


async def test_a_replica_above_its_memory_limit_is_killed_and_told_so(subject: LocalSubject) -> None:
    program = ("python3", "-c", "data = bytearray(300 << 20)\nfor i in range(0, len(data), 4096): data[i] = 1")
    role = make_role(command=program, resources=Resources(cpu_millis=100, memory_mib=64))
    await subject.engine.run(place(make_spec(roles=(role,)), await subject.node()))
    (exited,) = await subject.news.wait_for(ReplicaExited)
    if exited.exit_code == 1:
        pytest.skip("no control group may be made here; the resource limit has refused the memory instead")
    assert (exited.exit_code, exited.message) == (137, "killed: out of memory, limit 64 MiB")


async def test_without_control_groups_memory_is_refused_by_resource_limit(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path, use_cgroups=False) as subject:
        program = ("python3", "-c", "bytearray(300 << 20)")
        role = make_role(command=program, resources=Resources(cpu_millis=100, memory_mib=64))
        (exited,) = await run_to_end(subject, place(make_spec(roles=(role,)), await subject.node()))
        assert exited.exit_code == 1
        assert (await subject.lines())[-1].text == "MemoryError"


async def test_a_replica_runs_on_as_many_cpus_as_it_asked_for(subject: LocalSubject) -> None:
    gang = await shell_gang(subject, "grep Cpus_allowed_list /proc/self/status", resources=Resources(cpu_millis=1000))
    await run_to_end(subject, gang)
    (line,) = await subject.lines()
    assert int(line.text.split()[1]) in os.sched_getaffinity(0)


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["with control groups", "without control groups"])
@pytest.mark.parametrize("escape", ["setsid sleep 1000", "setsid env -i sleep 1000"], ids=["own session", "no marker"])
async def test_processes_that_left_the_group_are_ended_with_it(tmp_path: Path, use_cgroups: bool, escape: str) -> None:
    async with LocalSubject.over(tmp_path, use_cgroups=use_cgroups) as subject:
        script = f'({escape} & echo $! > "$RESULT_DIR/pid") ; echo away; sleep 1000'
        gang = await shell_gang(subject, script)
        await subject.engine.run(gang)

        async def has_left() -> bool:
            return bool(await subject.lines())

        await eventually(has_left)
        runaway = int((subject.root / "jobs/job-1/results/pid").read_text())
        await subject.engine.stop(gang.id, 1.0)
        await subject.news.wait_for(GangStopped)
        assert not processes.alive(runaway)


async def test_a_program_that_ends_takes_what_it_left_in_the_background_along(subject: LocalSubject) -> None:
    gang = await shell_gang(subject, 'setsid sleep 1000 & echo $! > "$RESULT_DIR/pid"')
    (exited,) = await run_to_end(subject, gang)
    assert exited.exit_code == 0
    assert not processes.alive(int((subject.root / "jobs/job-1/results/pid").read_text()))


async def test_children_keep_their_grace_when_the_first_process_ends_at_once(subject: LocalSubject) -> None:
    child = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done"
    gang = await shell_gang(subject, f'sh -c "{child}" & exec sleep 1000')
    await subject.engine.run(gang)

    async def is_up() -> bool:
        return bool(await subject.lines())

    await eventually(is_up)
    await subject.engine.stop(gang.id, 10.0)
    await subject.news.wait_for(GangStopped)
    assert "saved" in [line.text for line in await subject.lines()]


async def test_output_beyond_the_limit_keeps_the_newest(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path, log_limits=LogLimits(file_bytes=10_000, files=2)) as subject:
        gang = await shell_gang(subject, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done")
        await run_to_end(subject, gang)
        lines = await subject.lines()
        assert lines[-1].text == "line 1999"
        assert 50 < len(lines) < 2000
        assert [line.text for line in await subject.lines(tail=2)] == ["line 1998", "line 1999"]


async def test_output_that_is_not_text_does_no_harm(subject: LocalSubject) -> None:
    gang = await shell_gang(subject, "printf 'caf\\351\\n\\000\\377\\n'; printf unfinished")
    await run_to_end(subject, gang)
    assert [line.text for line in await subject.lines()] == ["caf\ufffd", "\0\ufffd", "unfinished"]


async def test_metrics_are_reported_before_the_exit_and_again_after_a_restart(subject: LocalSubject) -> None:
    lines = [
        '{"at": 5.0, "name": "loss", "value": 0.5, "step": 1}',
        "not a metric",
        '{"at": 1794785998831, "name": "loss", "value": 0.5, "step": 3}',
        '{"at": 6.0, "name": "loss", "value": null, "step": 2}',
        '{"at": 7.0, "name": "accuracy", "value": 1, "step": null}',
    ]
    gang = await shell_gang(
        subject, "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + " >> $GANGLINE_METRICS"
    )
    await run_to_end(subject, gang)
    want = [("loss", "0.5", 1, 5.0), ("loss", "nan", 2, 6.0), ("accuracy", "1.0", None, 7.0)]
    told = subject.news.of(Metric)
    assert [(metric.name, str(metric.value), metric.step, metric.at) for metric in told] == want
    assert {(metric.job_id, str(metric.replica)) for metric in told} == {("job-1", "worker-0")}
    assert subject.news.seen.index(told[-1]) < subject.news.seen.index(subject.news.of(ReplicaExited)[0])
    await subject.restart()
    again = await subject.news.wait_for(Metric, count=3)
    assert [(metric.name, str(metric.value), metric.step, metric.at) for metric in again] == want


async def test_nodes_divide_the_machine(tmp_path: Path) -> None:
    async with LocalSubject.over(tmp_path, nodes=3) as subject:
        names = [node.name for node in await subject.engine.nodes()]
        assert names == ["node-0", "node-1", "node-2"]
        gang = place(make_spec(), NodeName("node-2"))
        (exited,) = await run_to_end(subject, gang)
        assert exited.exit_code == 0


async def test_a_gang_that_is_stopped_before_it_began_never_begins(subject: LocalSubject) -> None:
    gang = await subject.gang(subject.role("worker", Program.SPEAK))
    await subject.engine.run(gang)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert not subject.news.of(ReplicaStarted)
    assert await subject.lines() == []


async def test_an_unknown_node_fails_the_gang(subject: LocalSubject) -> None:
    gang = place(make_spec(), NodeName("elsewhere"))
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert "elsewhere" in failed.message
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_an_mpi_gang_gets_a_hostfile_of_its_workers(subject: LocalSubject) -> None:
    roles = (
        make_role(
            "launcher", command=("sh", "-c", "cat $OMPI_MCA_orte_default_hostfile; $OMPI_MCA_plm_rsh_agent h echo hi")
        ),
        make_role("worker", command=("true",), replicas=2),
    )
    gang = place(make_spec(roles=roles, framework=Framework.MPI), await subject.node())
    await run_to_end(subject, gang)
    *hosts, said = [line.text for line in await subject.lines()]
    assert len(hosts) == 2
    assert all(host.startswith("127.") and host.endswith(" slots=1") for host in hosts)
    assert said == "hi"


async def test_replicas_of_a_job_with_parameter_servers_share_a_secret_that_nobody_else_can_read(
    subject: LocalSubject,
) -> None:
    show = ("sh", "-c", "stat -c %a $GANGLINE_SECRET_FILE; cat $GANGLINE_SECRET_FILE; echo")
    roles = (make_role("ps", command=show), make_role("worker", command=show, replicas=2))
    gang = place(make_spec(roles=roles), await subject.node())
    await run_to_end(subject, gang)

    modes, said = {}, {}
    for line in await subject.lines():
        known = modes if line.replica not in modes else said
        known[line.replica] = line.text
    assert set(modes.values()) == {"600"}
    (secret,) = set(said.values())
    assert len(said) == 3
    assert len(secret) == 64


async def test_other_jobs_have_no_secret(subject: LocalSubject) -> None:
    role = make_role(command=("sh", "-c", "echo ${GANGLINE_SECRET_FILE-none}"))
    await run_to_end(subject, place(make_spec(roles=(role,)), await subject.node()))

    assert [line.text for line in await subject.lines()] == ["none"]


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["with control groups", "without control groups"])
async def test_nothing_is_left_of_a_forgotten_job(tmp_path: Path, use_cgroups: bool) -> None:
    async with LocalSubject.over(tmp_path, use_cgroups=use_cgroups) as subject:
        gang = await shell_gang(
            subject, 'touch mine "$HOME/mine" "$TMPDIR/mine"; setsid sleep 1000 & sleep 1000', replicas=3
        )
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaStarted, count=3)
        token = json.loads((subject.attempt() / "order.json").read_text())["token"]
        await subject.engine.stop(gang.id, 0.5)
        await subject.news.wait_for(GangStopped)
        assert not (subject.attempt() / "scratch").exists()
        assert (subject.attempt() / "logs").exists()
        assert groups_of(subject.attempt()) == []
        assert marked_processes(token) == []
        await subject.engine.forget(gang.id.job_id)
        assert [path for path in subject.root.rglob("*") if path.is_file()] == []
        assert not (subject.root / "jobs" / "job-1").exists()

        async def keeper_is_gone() -> bool:
            return f"@gangline/keeper/{token}" not in await asyncio.to_thread(Path("/proc/net/unix").read_text)

        await eventually(keeper_is_gone)


def test_a_control_group_that_cannot_be_made_is_no_group() -> None:
    assert cgroups.limit_memory("/nowhere/group", 64) is False
    assert cgroups.enter("/proc/nowhere") is False
    assert cgroups.members("/nowhere/group") == []
    assert cgroups.out_of_memory_kills("/nowhere/group") == 0
    assert cgroups.remove("/nowhere/group") is True


async def test_a_replica_is_killed_on_request(subject: LocalSubject) -> None:
    gang = await shell_gang(subject, "sleep 1000 & wait", replicas=2)
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaStarted, count=2)
    victim = ReplicaId(RoleName("worker"), 1)
    await eventually(lambda: subject.engine.kill(gang.id, victim))
    (exited,) = await subject.news.wait_for(ReplicaExited, count=1)
    assert (exited.replica, exited.exit_code) == (victim, 137)
    assert not await subject.engine.kill(gang.id, victim)


RESULTS = {
    "a text": ('printf \'{"n": 3, "s": "😀"}\' > $GANGLINE_RESULT', '{"n": 3, "s": "😀"}'),
    "none": ("true", ""),
    "too large": ("head -c 262145 /dev/zero | tr '\\0' x > $GANGLINE_RESULT", ""),
    "not text": ("printf '\\377' > $GANGLINE_RESULT", ""),
    "a pipe": ("mkfifo $GANGLINE_RESULT", ""),
}


@pytest.mark.parametrize(("script", "want_result"), RESULTS.values(), ids=RESULTS)
async def test_what_a_program_leaves_for_whoever_started_it_comes_with_its_end(
    subject: LocalSubject, script: str, want_result: str
) -> None:
    (exited,) = await run_to_end(subject, await shell_gang(subject, script))
    assert (exited.exit_code, exited.result) == (0, want_result)
