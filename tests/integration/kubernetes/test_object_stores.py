"""Data of jobs in object stores: a real S3 server, movers in Gangline's own image, and keys in Secrets of the tenant.

The programs run in an image without any storage library, or without Python at all.
"""

import asyncio
import base64
import hashlib
import io
import json
import os
import signal
import tarfile
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import CacheClaim, install
from gangline.kinds.model import MODEL
from gangline.kube import NAMESPACES, PODS, SECRETS, KubeClient, load_access
from gangline.model import DataMove, Job, JobId, JobSpec, Phase, Tenant
from gangline.model.jobs.metric_source import MetricFormat, MetricSource
from gangline.model.jobs.spec import CheckpointRule
from gangline.model.kinds.registered_model import ModelSpec, ModelStatus, ModelVersion
from gangline.model.record import Record, RecordId
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore
from gangline.testing.builders import make_job, make_role
from tests.engines.collecting.test_formats import scalar
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.object_store import SECRET, ClusterS3, add_store, deploy
from tests.integration.kubernetes.test_data import CLAIMS, VOLUMES, make_disk
from tests.integration.kubernetes.world import World, eventually, shell
from tools.cluster.pytest_plugin import ClusterUnderTest


@pytest.fixture
async def s3(
    kubernetes_client: KubeClient, kubernetes_cluster: ClusterUnderTest, tmp_path: Path
) -> AsyncIterator[ClusterS3]:
    """An S3 server in the cluster."""
    namespace = f"s3-{uuid.uuid4().hex[:10]}"
    yield await deploy(kubernetes_client, kubernetes_cluster, namespace, tmp_path)
    await kubernetes_client.delete(NAMESPACES, namespace)


@pytest.fixture
async def world(
    kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str, kubernetes_gangline_image: str
) -> AsyncIterator[World]:
    """A whole Gangline whose movers have its own image."""
    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        await install(client, DEFINITIONS, print)
        store = KubernetesStore(client, namespace=kubernetes_namespace)
        world = World(client, kubernetes_namespace, store, mover_image=kubernetes_gangline_image)
        yield world
        await world.kill()
        await store.close()
        await release_jobs(client, kubernetes_namespace)


@pytest.fixture
async def frail(
    world: World, kubernetes_cluster: ClusterUnderTest, kubernetes_gangline_image: str, tmp_path: Path
) -> AsyncIterator[ClusterS3]:
    """A server in the cluster that fails when it is told to, as the tenant's default store."""
    namespace, image = f"s3-{uuid.uuid4().hex[:10]}", kubernetes_gangline_image
    s3 = await deploy(world.client, kubernetes_cluster, namespace, tmp_path / "s3", proxy_image=image)
    await add_store(world.client, world.store, world.namespace, s3, address="s3://bucket", default=True)
    yield s3
    await world.client.delete(NAMESPACES, namespace)


@pytest.fixture
async def lake(world: World, s3: ClusterS3) -> ClusterS3:
    """The server as the tenant's store 'lake', which is its default."""
    await add_store(world.client, world.store, world.namespace, s3, address="s3://bucket", default=True)
    return s3


async def output(world: World, job_id: JobId) -> list[str]:
    return [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]


def phases(job: Job) -> list[Phase]:
    return [entry.phase for entry in job.history]


async def test_data_goes_from_a_bucket_through_a_shell_into_a_bucket(world: World, lake: ClusterS3) -> None:
    lake.give("s3://bucket/in/a.txt", "first")
    lake.give("s3://bucket/in/skip.tmp", "no")
    fetch = DataMove("s3://bucket/in", "$DATA_DIR", store="lake", exclude=("*.tmp",))
    keep = DataMove("$RESULT_DIR", "s3://bucket/out/$JOB_NAME")
    role = shell('ls "$DATA_DIR"; cp "$DATA_DIR/a.txt" "$RESULT_DIR/b.txt"')
    job_id = await world.submit(role, inputs=(fetch,), outputs=(keep,))
    job = await world.phase(job_id, Phase.COMPLETED)
    assert phases(job)[-4:] == [Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING, Phase.COMPLETED]
    out = lake.at("s3://bucket/out/mnist")
    assert (out / "b.txt").read_text() == "first"
    assert (out / ".gangline" / "manifest.json").exists()
    assert not (out / ".gangline" / "writing.json").exists()
    assert await output(world, job_id) == ["a.txt"]


async def test_keys_are_in_no_object_but_their_secret(world: World, lake: ClusterS3) -> None:
    lake.give("s3://bucket/in/a.txt", "first")
    job_id = await world.submit(shell("sleep 1"), inputs=(DataMove("s3://bucket/in", "$DATA_DIR"),))
    await world.phase(job_id, Phase.PROCESSING)
    objects = [
        await world.client.raw(f"/api/v1/namespaces/{world.namespace}/{plural}")
        for plural in ("pods", "configmaps", "events")
    ]
    objects.append(await world.client.raw(f"/apis/gangline.dev/v1/namespaces/{world.namespace}/jobs"))
    objects.append(await world.client.raw(f"/apis/gangline.dev/v1/namespaces/{world.namespace}/stores"))
    encoded = base64.b64encode(SECRET.encode())
    assert all(SECRET.encode() not in text and encoded not in text for text in objects)
    await world.phase(job_id, Phase.COMPLETED)


async def test_a_job_registers_a_model_that_the_next_job_reads(world: World, lake: ClusterS3) -> None:
    first = shell('mkdir "$RESULT_DIR/m"; echo weights > "$RESULT_DIR/m/w"; echo "{}" > "$RESULT_DIR/m/signature.json"')
    keep = DataMove("$RESULT_DIR/m", "model://digits")
    await world.phase(await world.submit(first, name="first", outputs=(keep,)), Phase.COMPLETED)
    model = await world.store.records(MODEL).find(Tenant(world.namespace), "digits")
    assert model is not None
    (version,) = model.status.versions
    assert (version.number, version.job, version.files, version.signature) == (1, "first", 2, "{}")
    assert version.at == "s3://bucket/gangline-models"
    reader = shell('cat "$DATA_DIR/base/w"')
    read = DataMove("model://digits", "$DATA_DIR/base")
    job_id = await world.submit(reader, name="second", inputs=(read,))
    await world.phase(job_id, Phase.COMPLETED)
    assert await output(world, job_id) == ["weights"]


async def test_a_model_is_registered_once_although_the_controller_dies(world: World, lake: ClusterS3) -> None:
    role = shell('echo weights > "$RESULT_DIR/w"')
    job_id = await world.submit(role, outputs=(DataMove("$RESULT_DIR", "model://digits"),))
    await world.phase(job_id, Phase.STORING)
    await world.restart()
    await world.phase(job_id, Phase.COMPLETED)
    model = await world.store.records(MODEL).find(Tenant(world.namespace), "digits")
    assert model is not None
    assert [version.number for version in model.status.versions] == [1]


@pytest.mark.parametrize(
    ("move", "want"),
    [
        (DataMove("s3://bucket/in", "$DATA_DIR", store="pond"), "there is no store 'pond'"),
        (DataMove("s3://other/in", "$DATA_DIR", store="lake"), "store 'lake' is for s3://bucket"),
        (DataMove("model://nobody", "$DATA_DIR"), "no model named 'nobody'"),
    ],
    ids=["an unknown store", "an address that it does not cover", "an unknown model"],
)
async def test_what_does_not_exist_is_told_before_anything_starts(
    world: World, lake: ClusterS3, move: DataMove, want: str
) -> None:
    job = await world.phase(await world.submit(shell("true"), inputs=(move,)), Phase.FAILED)
    assert job.reason == "DataUnreachable"
    assert want in job.message
    assert await world.pods() == []


async def test_keys_that_nobody_has_given_are_told_before_anything_starts(world: World, lake: ClusterS3) -> None:
    await world.client.delete(SECRETS, "gangline-store-lake", namespace=world.namespace)
    fetch = DataMove("s3://bucket/in", "$DATA_DIR")
    job = await world.phase(await world.submit(shell("true"), inputs=(fetch,)), Phase.FAILED)
    assert (job.reason, "gangline store set-keys lake" in job.message) == ("KeysMissing", True)


async def test_a_refused_key_fails_the_job_at_once_with_the_reason(world: World, s3: ClusterS3) -> None:
    await add_store(world.client, world.store, world.namespace, s3, secret="wrong")
    s3.give("s3://bucket/in/a.txt", "first")
    fetch = DataMove("s3://bucket/in", "$DATA_DIR", store="lake")
    job = await world.phase(await world.submit(shell("true"), inputs=(fetch,)), Phase.FAILED)
    assert job.reason == "InputsFailed"
    assert "the store refuses the key" in job.message
    assert phases(job).count(Phase.DOWNLOADING) == 1, "another try would end the same"
    assert "wrong" not in job.message


async def test_a_store_that_is_away_for_a_while_is_waited_for(world: World, lake: ClusterS3) -> None:
    lake.give("s3://bucket/in/a.txt", "first")
    await lake.scale(0)
    job_id = await world.submit(shell('cat "$DATA_DIR/a.txt"'), inputs=(DataMove("s3://bucket/in", "$DATA_DIR"),))
    await world.phase(job_id, Phase.DOWNLOADING)
    await lake.scale(1)
    job = await world.phase(job_id, Phase.COMPLETED)
    assert phases(job).count(Phase.DOWNLOADING) == 1, "the mover itself waited"
    assert await output(world, job_id) == ["first"]


LARGE = os.urandom(24 << 20)


async def test_data_arrives_whole_through_a_store_that_refuses_and_dies(world: World, frail: ClusterS3) -> None:
    """It answers 503 for a while, dies in the middle of the inputs, and again in the middle of the results."""
    frail.at("s3://bucket/in").mkdir()
    frail.at("s3://bucket/in/large").write_bytes(LARGE)
    fetch, keep = DataMove("s3://bucket/in", "$DATA_DIR"), DataMove("$RESULT_DIR", "s3://bucket/out")
    frail.tell("refuse")
    frail.tell("die while answering", after_bytes=12 << 20)
    frail.tell("die while receiving", after_bytes=12 << 20)
    role = shell('cp "$DATA_DIR/large" "$RESULT_DIR/copy"')
    job_id = await world.submit(role, inputs=(fetch,), outputs=(keep,))
    await frail.met("refuse")
    frail.heal("refuse")
    await frail.met("die while answering")
    await frail.met("die while receiving")
    assert not frail.at("s3://bucket/out/.gangline/manifest.json").exists()
    job = await world.phase(job_id, Phase.COMPLETED)
    assert phases(job).count(Phase.DOWNLOADING) == 1, "the movers themselves tried again"
    assert frail.at("s3://bucket/out/copy").read_bytes() == LARGE
    assert frail.at("s3://bucket/out/.gangline/manifest.json").exists()
    assert not frail.at("s3://bucket/out/.gangline/writing.json").exists()


async def test_a_mover_of_inputs_that_is_killed_is_followed_by_another(world: World, frail: ClusterS3) -> None:
    frail.at("s3://bucket/in").mkdir()
    frail.at("s3://bucket/in/large").write_bytes(LARGE)
    frail.tell("hold", after_bytes=8 << 20)
    fetch = DataMove("s3://bucket/in", "$DATA_DIR")
    job_id = await world.submit(shell('md5sum < "$DATA_DIR/large"'), inputs=(fetch,))
    await frail.met("hold")
    await kill_mover(world, "inputs")
    frail.heal("hold")
    job = await world.phase(job_id, Phase.COMPLETED)
    assert phases(job).count(Phase.DOWNLOADING) == 2
    assert await output(world, job_id) == [hashlib.md5(LARGE).hexdigest() + "  -"]


KILL_MOVER = """
import os, pathlib, signal, sys
for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if f"pod_mover\\0{sys.argv[1]}\\0".encode() in each.read_bytes():
        os.kill(int(each.parent.name), signal.SIGKILL)
        sys.exit()
sys.exit("there is no mover")
"""


async def kill_mover(world: World, kind: str) -> None:
    """Kill the process that moves data, in the container of inputs or outputs.

    Its container ends with it, and may take the process that killed it along before that one can exit.
    """
    (pod,) = await world.pods()
    done = await world.client.execute(
        pod.metadata.name,
        ["python3", "-I", "-c", KILL_MOVER, "store" if kind == "outputs" else kind],
        namespace=world.namespace,
        container=f"gangline-{kind}",
    )
    assert done.exit_code in (0, 128 + signal.SIGKILL), done.stderr


MANY = 'i=0; while [ $i -lt 40 ]; do head -c 4000000 /dev/urandom > "$RESULT_DIR/$i"; i=$((i+1)); done'


async def begun(out: Path) -> None:
    """Wait until somebody writes there."""

    async def is_claimed() -> bool:
        return await asyncio.to_thread((out / ".gangline" / "writing.json").exists)

    await eventually(is_claimed)
    assert not (out / ".gangline" / "manifest.json").exists()


async def test_a_mover_that_is_killed_goes_on_where_it_was(world: World, lake: ClusterS3) -> None:
    job_id = await world.submit(shell(MANY), outputs=(DataMove("$RESULT_DIR", "s3://bucket/out"),))
    out = lake.at("s3://bucket/out")
    await begun(out)
    await kill_mover(world, "outputs")
    job = await world.phase(job_id, Phase.COMPLETED)
    assert phases(job).count(Phase.PROCESSING) == 1, "nothing was trained twice"
    assert len(json.loads((out / ".gangline" / "manifest.json").read_text())["files"]) == 40
    assert not (out / ".gangline" / "writing.json").exists()


async def test_nothing_half_stored_is_read_when_the_pod_is_gone(world: World, lake: ClusterS3) -> None:
    job_id = await world.submit(shell(MANY), outputs=(DataMove("$RESULT_DIR", "s3://bucket/out"),))
    out = lake.at("s3://bucket/out")
    await begun(out)
    (pod,) = await world.pods()
    await world.client.delete(PODS, pod.metadata.name, namespace=world.namespace, grace_seconds=0)
    job = await world.phase(job_id, Phase.FAILED)
    assert (job.reason, "was gone before they were stored" in job.message) == ("OutputsFailed", True)
    assert not (out / ".gangline" / "manifest.json").exists()


async def test_the_program_cannot_look_into_the_mover_beside_it(world: World, lake: ClusterS3) -> None:
    """They share processes and a user; the keys are in the mover's files alone."""
    look = (
        "for i in $(seq 50); do for p in /proc/[0-9]*; do "
        'if tr "\\0" " " < $p/cmdline 2>/dev/null | grep -q data.pod_move[r]; then '
        "ls $p/root/gangline/stores 2>&1; exit 0; fi; done; sleep 0.2; done"
    )
    job_id = await world.submit(shell(f"sleep 3; {look}"), outputs=(DataMove("$RESULT_DIR", "s3://bucket/out"),))
    await world.phase(job_id, Phase.COMPLETED)
    said = "\n".join(await output(world, job_id))
    assert "Permission denied" in said
    assert "lake" not in said


STEALING = {
    "store": (DataMove("s3://bucket/in", "$DATA_DIR", store="theirs"), "there is no store 'theirs'"),
    "volume": (DataMove("pvc://their-claim", "$DATA_DIR"), "claim 'their-claim' does not exist"),
    "cache": (DataMove("pvc://gangline-cache/content", "$DATA_DIR"), "claim 'gangline-cache' does not exist"),
    "model": (DataMove("model://their-model", "$DATA_DIR"), "no model named 'their-model'"),
    "results": (DataMove("job://their-job/results", "$DATA_DIR"), "their-job"),
    "link": (DataMove("s3://bucket/links.tar", "$DATA_DIR", unpack=True), "leads out of"),
    "path": (DataMove("s3://bucket/dots.tar", "$DATA_DIR", unpack=True), "outside of its directory"),
}


async def test_a_tenant_reads_nothing_of_another_by_address_name_or_link(
    world: World, lake: ClusterS3, tmp_path: Path
) -> None:
    other = f"{world.namespace}-other"
    await world.client.create(NAMESPACES, {"metadata": {"name": other}})
    disk = await asyncio.to_thread(make_disk, tmp_path)
    give_archives(lake.at("s3://bucket"))
    try:
        foreign = KubernetesStore(world.client, namespace=other)
        await add_store(world.client, foreign, other, lake, name="theirs")
        for claim in ("their-claim", "gangline-cache"):
            await claim_on(world.client, other, claim, disk)
        theirs = JobSpec(name="their-job", roles=(shell("true"),), tenant=Tenant(other))
        await foreign.create(make_job(theirs, job_id="theirs", at=0.0))
        version = ModelVersion(number=1, digest="sha256:" + "0" * 64, created_at=0.0)
        spec = ModelSpec(name="their-model", tenant=Tenant(other))
        await foreign.records(MODEL).create(
            Record(id=RecordId("m"), spec=spec, status=ModelStatus(versions=(version,)), created_at=0.0)
        )
        await foreign.close()
        jobs = {
            name: await world.submit(shell('ls -R "$DATA_DIR"'), name=f"thief-{name}", inputs=(move,))
            for name, (move, _) in STEALING.items()
        }
        for name, (move, want) in STEALING.items():
            if move.source.startswith("pvc://"):  # it may be made yet, so the job waits
                await eventually(partial(is_told, world, jobs[name], want))
                job = await world.store.get(jobs[name])
            else:
                job = await world.phase(jobs[name], Phase.FAILED)
                assert want in job.message, (name, job.message)
            assert Phase.PROCESSING not in phases(job), name
    finally:
        await release_jobs(world.client, other)
        for claim in ("their-claim", "gangline-cache"):
            await world.client.delete(VOLUMES, f"{other}-{claim}")
        await world.client.delete(NAMESPACES, other)


async def is_told(world: World, job_id: JobId, want: str) -> bool:
    """Whether a job that waits is told why."""
    why = world.controller.explanation(job_id)
    return why is not None and want in " ".join(why.words())


def give_archives(bucket: Path) -> None:
    """Archives that lead to the keys of a mover, by a link and by their paths."""
    with tarfile.open(bucket / "links.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/gangline/stores/lake/secret"
        archive.addfile(link)
    with tarfile.open(bucket / "dots.tar", "w") as archive:
        file = tarfile.TarInfo("../../stores/x")
        archive.addfile(file, io.BytesIO())


async def test_what_one_job_fetched_the_next_one_has_from_the_tenants_cache(
    world: World, lake: ClusterS3, tmp_path: Path
) -> None:
    disk = await asyncio.to_thread(make_disk, tmp_path)
    await claim_on(world.client, world.namespace, "gangline-cache", disk)
    await world.kill()
    world.cache = CacheClaim(name="gangline-cache", most_bytes=1 << 30)
    await world.restart()
    # Stored through the server, which gives it a tag: without one, nothing is cached.
    first = shell('printf first > "$RESULT_DIR/a.txt"')
    store = await world.submit(first, name="zero", outputs=(DataMove("$RESULT_DIR", "s3://bucket/in"),))
    await world.phase(store, Phase.COMPLETED)
    fetch = DataMove("s3://bucket/in", "$DATA_DIR")
    for name, want in (("one", "first"), ("two", "cache")):
        job_id = await world.submit(shell('cat "$DATA_DIR/a.txt"'), name=name, inputs=(fetch,))
        await world.phase(job_id, Phase.COMPLETED)
        assert await output(world, job_id) == [want]
        (content,) = await asyncio.to_thread(lambda: list((disk / world.namespace / "content").iterdir()))
        content.write_text("cache")  # by this the second job shows where it had it from
    await world.client.delete(VOLUMES, f"{world.namespace}-gangline-cache")


async def claim_on(client: KubeClient, namespace: str, name: str, disk: Path) -> None:
    """Make a claim on a directory of this machine, which every node of the test cluster sees."""
    volume = f"{namespace}-{name}"
    shape = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    made = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(disk)}, **shape}
    await client.create(VOLUMES, {"metadata": {"name": volume}, "spec": made})
    wanted = {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}, **shape}
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": wanted}, namespace=namespace)


SAVE = """
import pathlib, time
from gangline.runtime import Checkpoints, current
here = Checkpoints(current().checkpoint_directory)
found = here.latest()
step = found.step if found else 0
print("begins at", step, flush=True)
while not found:
    step += 1
    here.save(step, lambda path: (path / "state").write_text(f"state {step}") and None)
    here.wait()
    print("saved", step, flush=True)
    time.sleep(2 if step >= 3 else 0)
print((found.path / "state").read_text())
"""


async def test_checkpoints_outlive_their_pod_in_a_bucket_and_one_may_be_chosen(
    world: World, lake: ClusterS3, kubernetes_gangline_image: str
) -> None:
    """The program has no keys; the image is one with Gangline's runtime, which needs no storage library."""
    role = make_role(image=kubernetes_gangline_image, command=("python3", "-c", SAVE), replicas=1)
    rule = CheckpointRule(to="s3://bucket/runs/$JOB_NAME", keep=3)
    job_id = await world.submit(role, checkpoints=rule)
    third = lake.at("s3://bucket/runs/mnist/step-000000000003.1/commit.json")

    async def is_saved() -> bool:
        return await asyncio.to_thread(third.exists)

    await eventually(is_saved)
    (pod,) = await world.pods()
    await world.client.delete(PODS, pod.metadata.name, namespace=world.namespace, grace_seconds=0)
    await world.phase(job_id, Phase.COMPLETED)
    said = await output(world, job_id)
    begun_at = [line for line in said if line.startswith("begins at")]
    assert begun_at[-1] != "begins at 0"
    assert said[-1].startswith("state ")


async def test_the_record_has_what_was_moved_and_the_next_job_reads_it_by_the_jobs_name(
    world: World, lake: ClusterS3
) -> None:
    lake.give("s3://bucket/in/a.txt", "first")
    keep = DataMove("$RESULT_DIR", "s3://bucket/out/$JOB_NAME")
    role = shell('cp "$DATA_DIR/a.txt" "$RESULT_DIR/b.txt"; ln -s /gangline/stores/lake/secret "$RESULT_DIR/key"')
    fetch = DataMove("s3://bucket/in", "$DATA_DIR")
    first = await world.phase(await world.submit(role, name="first", inputs=(fetch,), outputs=(keep,)), Phase.COMPLETED)
    assert [each.address for each in first.inputs] == ["s3://bucket/in"]
    assert [each.address for each in first.outputs] == ["s3://bucket/out/first"]
    assert first.outputs[0].digest.startswith("sha256:")
    assert "key (a link out of the job's directories)" in first.message
    assert not lake.at("s3://bucket/out/first/key").exists()
    read = DataMove("job://first/results", "$DATA_DIR")
    second = await world.submit(shell('ls "$DATA_DIR"'), name="second", inputs=(read,))
    job = await world.phase(second, Phase.COMPLETED)
    assert await output(world, second) == ["b.txt"]
    assert [each.address for each in job.inputs] == ["job://first/results"]
    assert job.inputs[0].digest == first.outputs[0].digest


WRITE_NUMBERS = """
mkdir -p "$RESULT_DIR/tb/train"; cp "$DATA_DIR/events" "$RESULT_DIR/tb/train/events.out.tfevents.1"
cp "$DATA_DIR/records" "$RESULT_DIR/records"
echo '{"at":1.0,"name":"reported","value":0.5,"step":1}'
printf 'step 1\\nloss 0.5\\nstep 2\\nloss 0.25' > "$RESULT_DIR/log"
"""
NUMBERS = (
    MetricSource(path="$RESULT_DIR/tb", format=MetricFormat.TENSORBOARD),
    MetricSource(path="$RESULT_DIR/records", format=MetricFormat.RECORDS),
    MetricSource(
        path="$RESULT_DIR/log",
        format=MetricFormat.PATTERN,
        pattern=r"step (?P<step>\d+)\nloss (?P<loss>[.\d]+)",
        values={"test/loss": "loss"},
        step="step",
        lines=2,
    ),
)
WANT_NUMBERS = {
    ("reported", 1, 0.5),
    ("train/accuracy", 3, 0.75),
    ("eval/loss", 9, 0.125),
    ("test/loss", 1, 0.5),
    ("test/loss", 2, 0.25),
}


@pytest.mark.parametrize("storing", [False, True], ids=["alone", "beside results that are stored"])
async def test_numbers_in_files_of_the_program_are_metrics_of_the_job(
    world: World, lake: ClusterS3, *, storing: bool
) -> None:
    record = {"grouplabel": "eval", "etimes": {"iteration": {"value": 9}}, "values": {"loss": {"value": "0.125"}}}
    lake.give("s3://bucket/in/records", json.dumps(record))
    lake.at("s3://bucket/in/events").write_bytes(scalar("accuracy", 0.75, 3, as_tensor=True))
    outputs = (DataMove("$RESULT_DIR", "s3://bucket/out"),) if storing else ()
    fetch = DataMove("s3://bucket/in", "$DATA_DIR")
    job_id = await world.submit(shell(WRITE_NUMBERS), inputs=(fetch,), outputs=outputs, metrics=NUMBERS)
    await world.phase(job_id, Phase.COMPLETED)
    assert {(each.name, each.step, each.value) for each in await world.store.metrics(job_id)} == WANT_NUMBERS
