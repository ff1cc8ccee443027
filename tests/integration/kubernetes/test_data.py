"""Data that is fetched before a gang starts: from the submitter's disk, over HTTP, from a volume."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.engines.interface import LogQuery
from gangline.errors import InvalidInputError
from gangline.kube import CONFIG_MAPS, PODS, GenericObject, KubeClient, Resource
from gangline.model import DataMove, JobId, JobSpec, Phase, Policy, RoleSpec, Tenant
from gangline.testing.builders import make_role
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import World, eventually

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)

VOLUMES = Resource(plural="persistentvolumes", kind="PersistentVolume", type=GenericObject, namespaced=False)
CLAIMS = Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", type=GenericObject)
LIST_FILES = """
import hashlib, json, os, pathlib
root = pathlib.Path(os.environ["DATA_DIR"])
files = [file for file in root.rglob("*") if file.is_file()]
print(json.dumps({str(f.relative_to(root)): hashlib.sha256(f.read_bytes()).hexdigest()[:8] for f in files}))
"""
SUM_OF_A = "ca978112"


def lists_its_data(image: str, **fields: object) -> RoleSpec:
    return make_role(command=("python3", "-c", LIST_FILES), image=image, resources=SMALL, **fields)


async def submit(world: World, role: RoleSpec, *inputs: DataMove, send: bool = True, **fields: object) -> JobId:
    """Submit as the command line would: the record first, then the files."""
    job_id = await world.submit(role, inputs=inputs, **fields)
    if send:
        await world.engine.send_files(job_id, (await world.store.get(job_id)).spec)
    return job_id


async def data_seen(world: World, job_id: JobId) -> list[dict[str, str]]:
    """What each replica found in its data directory, once all of them are gone."""
    await world.phase(job_id, Phase.COMPLETED)
    await world.until(job_id, lambda job: not job.holding)
    return [json.loads(line.text) async for line in world.engine.logs(LogQuery(job_id=job_id))]


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    (tmp_path / "set" / "inner").mkdir(parents=True)
    (tmp_path / "set" / "a.txt").write_text("a")
    (tmp_path / "set" / "inner" / "also-a.txt").write_text("a")
    (tmp_path / "set" / "large").write_bytes(random.Random(0).randbytes(2_500_000))
    return tmp_path / "set"


def make_disk(folder: Path) -> Path:
    """A directory that the ordinary user of a pod may write."""
    (folder / "disk").mkdir()
    (folder / "disk").chmod(0o777)
    return folder / "disk"


@pytest.fixture
async def claim(kubernetes_client: KubeClient, kubernetes_namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """A claim on a directory of this machine, which every node of the test cluster sees."""
    disk = await asyncio.to_thread(make_disk, tmp_path)
    shape = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeMode": "Filesystem"}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(disk)}, **shape}
    name = kubernetes_namespace
    await kubernetes_client.create(VOLUMES, {"metadata": {"name": name}, "spec": volume})
    wanted = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}, **shape}
    await kubernetes_client.create(CLAIMS, {"metadata": {"name": "disk"}, "spec": wanted}, namespace=name)
    yield "disk"
    await kubernetes_client.delete(VOLUMES, name)


async def test_files_of_the_submitter_arrive_whole_in_every_replica(
    world: World, kubernetes_python_image: str, folder: Path
) -> None:
    inputs = (DataMove(str(folder), "$DATA_DIR"), DataMove(str(folder / "a.txt"), "$DATA_DIR/named.txt"))
    job_id = await submit(world, lists_its_data(kubernetes_python_image, replicas=2), *inputs)
    first, second = await data_seen(world, job_id)
    assert first == second
    assert first.keys() == {"a.txt", "inner/also-a.txt", "large", "named.txt"}
    assert first["named.txt"] == first["inner/also-a.txt"] == SUM_OF_A
    history = [entry.phase for entry in (await world.store.get(job_id)).history]
    assert history[:4] == [Phase.QUEUED, Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING]


async def test_files_of_the_submitter_disappear_with_the_job(
    world: World, kubernetes_python_image: str, folder: Path
) -> None:
    job_id = await submit(world, lists_its_data(kubernetes_python_image), DataMove(str(folder), "$DATA_DIR"))
    await world.phase(job_id, Phase.COMPLETED)
    await world.delete(job_id)
    left = (await world.client.list(CONFIG_MAPS, namespace=world.namespace)).items or []
    assert [item.metadata.name for item in left if item.metadata.name != "kube-root-ca.crt"] == []


async def test_a_path_that_nobody_sent_is_missed_before_anything_starts(world: World) -> None:
    move = DataMove("/somewhere/else", "$DATA_DIR")
    job_id = await submit(world, lists_its_data("gangline.local/busybox:1"), move, send=False)
    job = await world.phase(job_id, Phase.FAILED)
    assert job.reason == "InputsMissing"
    assert "pvc://CLAIM/path" in job.message


async def test_data_comes_over_http(
    world: World, kubernetes_client: KubeClient, kubernetes_namespace: str, kubernetes_python_image: str
) -> None:
    server = {"name": "main", "image": kubernetes_python_image, "command": ["sh", "-c"]}
    server["args"] = ["cd /tmp; printf a > a.txt; python3 -m http.server 8000"]
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [server], "terminationGracePeriodSeconds": 1}}
    await kubernetes_client.create(PODS, pod, namespace=kubernetes_namespace)

    async def runs() -> bool:
        return (await kubernetes_client.get(PODS, "web", namespace=kubernetes_namespace)).status.phase == "Running"

    await eventually(runs)
    address = (await kubernetes_client.get(PODS, "web", namespace=kubernetes_namespace)).status.pod_ip
    move = DataMove(f"http://{address}:8000/a.txt", "$DATA_DIR")
    job_id = await submit(world, lists_its_data(kubernetes_python_image), move)
    assert await data_seen(world, job_id) == [{"a.txt": SUM_OF_A}]


async def test_a_failed_fetch_fails_the_job_with_the_movers_words(world: World, kubernetes_python_image: str) -> None:
    move = DataMove("s3://bucket/key", "$DATA_DIR")
    job_id = await submit(world, lists_its_data(kubernetes_python_image), move)
    job = await world.phase(job_id, Phase.FAILED)
    assert job.reason == "InputsFailed"
    assert "object stores need an extra: pip install 'gangline[data]'" in job.message


async def test_a_directory_of_a_claim_is_mounted_where_it_is_wanted(
    world: World, kubernetes_python_image: str, claim: str, tmp_path: Path
) -> None:
    (tmp_path / "disk" / "sets").mkdir()
    (tmp_path / "disk" / "sets" / "a.txt").write_text("a")
    move = DataMove(f"pvc://{claim}/sets", "$DATA_DIR")
    job_id = await submit(world, lists_its_data(kubernetes_python_image), move)
    assert await data_seen(world, job_id) == [{"a.txt": SUM_OF_A}]


async def test_a_directory_that_a_claim_does_not_hold_is_named(
    world: World, kubernetes_python_image: str, claim: str
) -> None:
    job_id = await submit(world, lists_its_data(kubernetes_python_image), DataMove(f"pvc://{claim}/no", "$DATA_DIR"))
    job = await world.phase(job_id, Phase.FAILED)
    assert (job.reason, job.message) == ("InputsFailed", f"worker-0: pvc://{claim}/no is not a directory")


async def test_replicas_fill_a_volume_they_share_once(
    world: World, kubernetes_python_image: str, claim: str, folder: Path, tmp_path: Path
) -> None:
    job_id = await submit(
        world,
        lists_its_data(kubernetes_python_image, replicas=3),
        DataMove(str(folder), "$DATA_DIR"),
        labels={"gangline.dev/volume": claim},
    )
    seen = await data_seen(world, job_id)
    assert seen == [seen[0]] * 3
    assert len(await asyncio.to_thread(lambda: [*(tmp_path / "disk/mnist/receipts").iterdir()])) == 2  # and a lock


async def test_files_that_are_too_many_are_refused_with_what_to_do_instead(world: World, tmp_path: Path) -> None:
    noise = random.Random(0)
    for number in range(9):
        (tmp_path / f"{number}.bin").write_bytes(noise.randbytes(8 << 20))
    spec = JobSpec(
        name="large",
        roles=(lists_its_data("any"),),
        tenant=Tenant(world.namespace),
        inputs=(DataMove(str(tmp_path), "$DATA_DIR"),),
    )
    with pytest.raises(InvalidInputError, match=r"more than 64 MiB compressed.*s3://.*pvc://CLAIM/path"):
        await world.engine.send_files(JobId("large"), spec)


async def test_a_path_as_output_is_refused_before_anything_is_sent(world: World) -> None:
    spec = JobSpec(
        name="away",
        roles=(lists_its_data("any"),),
        tenant=Tenant(world.namespace),
        outputs=(DataMove("$RESULT_DIR", "/home/me/results"),),
    )
    with pytest.raises(InvalidInputError, match="reach no other machine's disk"):
        await world.engine.send_files(JobId("away"), spec)


async def test_results_of_the_lead_are_stored_when_all_is_done(
    world: World, kubernetes_python_image: str, claim: str, tmp_path: Path
) -> None:
    program = (
        "import os, pathlib; here = pathlib.Path(os.environ['RESULT_DIR']);"
        "(here / 'who').write_text(os.environ['GANGLINE_INDEX'])"
    )
    role = make_role(command=("python3", "-c", program), image=kubernetes_python_image, resources=SMALL, replicas=2)
    job_id = await world.submit(role, outputs=(DataMove("$RESULT_DIR", f"pvc://{claim}/results/$JOB_NAME"),))
    job = await world.phase(job_id, Phase.COMPLETED)
    assert (tmp_path / "disk/results/mnist/who").read_text() == "0"
    history = [entry.phase for entry in job.history]
    assert history[-3:] == [Phase.PROCESSING, Phase.STORING, Phase.COMPLETED]


async def test_results_that_cannot_be_stored_fail_the_job_with_the_movers_words(
    world: World, kubernetes_python_image: str
) -> None:
    role = make_role(command=("true",), image=kubernetes_python_image, resources=SMALL)
    job_id = await world.submit(role, outputs=(DataMove("$RESULT_DIR", "s3://bucket/results"),))
    job = await world.phase(job_id, Phase.FAILED)
    assert job.reason == "OutputsFailed"
    assert "object stores need an extra: pip install 'gangline[data]'" in job.message


async def test_a_failed_program_stores_nothing(
    world: World, kubernetes_python_image: str, claim: str, tmp_path: Path
) -> None:
    role = make_role(command=("false",), image=kubernetes_python_image, resources=SMALL)
    policy = Policy(max_attempts=1, grace_seconds=2.0)
    job_id = await world.submit(role, outputs=(DataMove("$RESULT_DIR", f"pvc://{claim}/results"),), policy=policy)
    await world.phase(job_id, Phase.FAILED)
    await world.until(job_id, lambda job: not job.holding)
    assert not (tmp_path / "disk/results").exists()
