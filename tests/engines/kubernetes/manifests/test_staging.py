"""What brings data into pods and results out of them."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gangline.engines.kubernetes.manifests.archives import Archive
from gangline.engines.kubernetes.manifests.gang import Surroundings, gang_to_moves, gang_to_pods
from gangline.engines.kubernetes.manifests.moves import GangData, JobArchives, ModelUse, check_data, local_inputs
from gangline.engines.kubernetes.manifests.mpi.remote_shell import PROGRAM
from gangline.engines.kubernetes.manifests.staging import unpack_script
from gangline.errors import InvalidInputError
from gangline.model import (
    CodeLimits,
    DataMove,
    Framework,
    Gang,
    GangId,
    GangReplica,
    JobId,
    JobSpec,
    NodeName,
    ReplicaId,
)
from gangline.model.jobs.metric_source import MetricFormat, MetricSource
from gangline.model.jobs.spec import CheckpointRule
from gangline.model.kinds.data_store import DataStore
from gangline.testing.builders import make_role, make_spec

CODE = Archive(name="mnist-code", digest="c" * 64, parts=2)
INPUT = Archive(name="mnist-inputs-0", digest="d" * 64, parts=1, file="a.txt")


def make_pods(
    job_archives: JobArchives | None = None, *, replicas: int = 2, data: GangData | None = None, **fields: Any
) -> list[dict[str, Any]]:
    role = make_role(image="acme/train:1", replicas=replicas)
    gang = make_gang(make_spec(roles=(role,), **fields))
    around = Surroundings(
        job_archives=job_archives or JobArchives(), data=data or GangData(), mover_image="acme/gangline:1"
    )
    return list(gang_to_pods(gang, gang.replicas, around))


def make_gang(spec: JobSpec) -> Gang:
    replicas = tuple(
        GangReplica(id=ReplicaId(role.name, index), node=NodeName("node-0"))
        for role in spec.roles
        for index in range(role.replicas)
    )
    return Gang(id=GangId(JobId("job-1"), 1), spec=spec, replicas=replicas)


def mounts_of(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


def test_a_job_without_files_has_nothing_around_its_program() -> None:
    for pod in make_pods():
        assert "initContainers" not in pod["spec"]
        assert len(pod["spec"]["containers"]) == 1


def test_every_part_of_the_code_is_mounted_in_order() -> None:
    pod = make_pods(JobArchives(code=CODE), code="sha256:" + "c" * 64)[0]
    (unpack,) = pod["spec"]["initContainers"]
    assert unpack["image"] == "acme/train:1"
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    parts = [mount for path, mount in sorted(mounts_of(unpack).items()) if path.startswith("/gangline/archives/code/")]
    assert [volumes[mount["name"]]["configMap"]["name"] for mount in parts] == CODE.part_names()


@pytest.fixture(params=["tar", "busybox", "python"])
def path_with(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A search path with little in it: GNU tar and gzip, busybox's, or Python alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "head", "wc", *(("python3",) if request.param == "python" else ("tar", "gzip"))):
        found = shutil.which("busybox" if request.param == "busybox" else name)
        program = sys.executable if name == "python3" else found
        if program is None:
            pytest.skip(f"there is no {request.param} here")
        (folder / name).symlink_to(program)
    return str(folder)


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        pytest.param([2000, 3000, 0], "", id="within the limits"),
        pytest.param([1 << 20], "", id="as large as can be"),
        pytest.param([1 << 20, 1 << 20], "1 MiB", id="too large"),
        pytest.param([100 << 20], "1 MiB", id="a few bytes that become very many"),
        pytest.param([0] * 6, "5 files", id="too many files"),
    ],
)
def test_code_is_unpacked_within_limits(path_with: str, tmp_path: Path, sizes: list[int], want: str) -> None:
    (tmp_path / "code").mkdir()
    with tarfile.open(tmp_path / "part", "w:gz") as archive:
        for number, size in enumerate(sizes):
            member = tarfile.TarInfo(f"file-{number}")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    limits = CodeLimits(unpacked_bytes=1 << 20, files=5)
    script = unpack_script(str(tmp_path / "part"), str(tmp_path / "code"), limits)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": path_with}, capture_output=True, text=True, check=False
    )
    found = {path.name: path.stat().st_size for path in (tmp_path / "code").iterdir()}
    if want:
        assert done.returncode == 1
        assert want in done.stderr
        assert sum(found.values()) <= limits.unpacked_bytes
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert found == {f"file-{number}": size for number, size in enumerate(sizes)}


def test_the_mover_has_the_programs_directories_and_what_opens_stores() -> None:
    variables = {"AWS_REGION": "moon", "https_proxy": "http://proxy", "LD_PRELOAD": "/lib/of/the/image.so"}
    pod = make_pods(inputs=(DataMove("s3://bucket/set", "$DATA_DIR"),), env=variables)[0]
    (mover,) = pod["spec"]["initContainers"]
    (program,) = pod["spec"]["containers"]
    assert {variable["name"] for variable in mover["env"]} == {"AWS_REGION", "https_proxy"}
    assert mover["securityContext"] == program["securityContext"]
    assert mounts_of(mover)["/gangline/data"] == mounts_of(program)["/gangline/data"]
    assert (mover["image"], program["image"]) == ("acme/gangline:1", "acme/train:1")


LAKE = DataStore(name="lake", address="s3://", endpoint="http://s3", keys="gangline-store-lake")
FETCH = DataMove("s3://bucket/set", "$DATA_DIR", store="lake", exclude=("*.tmp",), unpack=True)
KEEP = DataMove("$RESULT_DIR", "model://mnist")


def test_keys_are_mounted_for_the_mover_that_needs_them_and_for_nobody_else() -> None:
    data = GangData(stores={"lake": LAKE}, store_of={FETCH: "lake"})
    pod = make_pods(inputs=(FETCH,), outputs=(DataMove("$RESULT_DIR", "s3://other/x"),), data=data)[0]["spec"]
    keys = [volume for volume in pod["volumes"] if "secret" in volume]
    assert [volume["secret"]["secretName"] for volume in keys] == ["gangline-store-lake"]
    holders = [
        container["name"]
        for container in (*pod["initContainers"], *pod["containers"])
        if any(mount["name"] == keys[0]["name"] for mount in container["volumeMounts"])
    ]
    assert holders == ["gangline-inputs"]


def test_movers_are_told_where_a_store_is_and_never_what_opens_it() -> None:
    gang = make_gang(make_spec(roles=(make_role(image="any"),), inputs=(FETCH,)))
    moves = gang_to_moves(gang, Surroundings(data=GangData(stores={"lake": LAKE}, store_of={FETCH: "lake"})))
    assert moves is not None
    order = json.loads(moves["data"]["moves.json"])
    assert order["stores"] == {"lake": {"endpoint": "http://s3", "region": "", "keys": "/gangline/stores/lake"}}
    (entry,) = order["inputs"]
    assert entry["move"] == ["s3://bucket/set", "/gangline/data", "lake", [], ["*.tmp"], True, None, "s3://bucket/set"]


def test_a_models_claim_is_mounted_for_its_mover_and_told() -> None:
    data = GangData(models={KEEP: ModelUse(at="pvc://models")})
    pod = make_pods(outputs=(KEEP,), data=data)[0]["spec"]
    mover = pod["containers"][-1]
    claim = mounts_of(mover)["/gangline/claims/models"]
    assert (claim["readOnly"], mover["name"]) == (False, "gangline-outputs")
    assert {"name": claim["name"], "persistentVolumeClaim": {"claimName": "models"}} in pod["volumes"]
    gang = make_gang(make_spec(roles=(make_role(image="any"),), outputs=(KEEP,)))
    moves = gang_to_moves(gang, Surroundings(data=data))
    assert moves is not None
    (entry,) = json.loads(moves["data"]["moves.json"])["outputs"]
    assert entry["models"] == {"at": "/gangline/claims/models", "store": None, "address": "pvc://models"}


def test_an_export_is_mounted_for_the_program_to_read_and_for_the_mover_to_write() -> None:
    read, write = DataMove("nfs://files.example.org/sets/a", "$DATA_DIR"), DataMove("$RESULT_DIR", "nfs://files/out")
    pod = make_pods(inputs=(read,), outputs=(write,))[0]["spec"]
    volumes = {volume["name"]: volume.get("nfs") for volume in pod["volumes"]}
    mount = mounts_of(pod["containers"][0])["/gangline/data"]
    assert volumes[mount["name"]] == {"server": "files.example.org", "path": "/sets/a"}
    assert mount["readOnly"]
    assert "subPath" not in mount
    (there,) = (each for each in mounts_of(pod["containers"][-1]).values() if "exports" in each["mountPath"])
    assert (volumes[there["name"]], there["readOnly"]) == ({"server": "files", "path": "/out"}, False)
    gang = make_gang(make_spec(roles=(make_role(image="any"),), outputs=(write,)))
    moves = gang_to_moves(gang, Surroundings())
    assert moves is not None
    (entry,) = json.loads(moves["data"]["moves.json"])["outputs"]
    assert (entry["move"][1], entry["move"][-1]) == (there["mountPath"], "nfs://files/out")


def test_results_of_a_job_are_read_where_they_lie() -> None:
    read = DataMove("job://first/results", "$DATA_DIR")
    data = GangData(stands_for={"job://first/results": "pvc://disk/first/results"})
    pod = make_pods(inputs=(read,), data=data)[0]["spec"]
    mount = mounts_of(pod["containers"][0])["/gangline/data"]
    assert (mount["subPath"], mount["readOnly"]) == ("first/results", True)
    assert {"name": mount["name"], "persistentVolumeClaim": {"claimName": "disk"}} in pod["volumes"]


def test_checkpoints_are_written_by_a_sidecar_of_every_replica_that_alone_has_the_keys() -> None:
    rule = CheckpointRule(to="s3://runs/$JOB_NAME", store="lake", keep=2, every_seconds=600)
    data = GangData(stores={"lake": LAKE}, checkpoint_store="lake")
    for pod in make_pods(checkpoints=rule, data=data):
        main, sidecar = pod["spec"]["containers"][0], pod["spec"]["initContainers"][-1]
        assert (sidecar["name"], sidecar["restartPolicy"]) == ("gangline-checkpoints", "Always")
        assert {"/gangline/checkpoints", "/gangline/checkpointing", "/gangline/stores/lake"} <= set(mounts_of(sidecar))
        assert "/gangline/checkpointing" in mounts_of(main)
        assert "/gangline/stores/lake" not in mounts_of(main)
        told = {each["name"]: each.get("value") for each in main["env"]}
        assert told["GANGLINE_CHECKPOINT_TO"] == "s3://runs/mnist"
        assert (told["GANGLINE_CHECKPOINT_KEEP"], told["GANGLINE_CHECKPOINT_SECONDS"]) == ("2", "600")
        assert told["GANGLINE_CHECKPOINT_SOCKET"] == "/gangline/checkpointing/socket"
    gang = make_gang(make_spec(roles=(make_role(image="any"),), checkpoints=rule))
    moves = gang_to_moves(gang, Surroundings(data=data))
    assert moves is not None
    order = json.loads(moves["data"]["moves.json"])["checkpoints"]
    assert (order["to"], order["store"], order["folder"]) == ("s3://runs/mnist", "lake", "/gangline/checkpoints")


def test_checkpoints_on_a_claim_have_it_mounted_for_the_sidecar_alone() -> None:
    pod = make_pods(checkpoints=CheckpointRule(to="pvc://disk/runs"))[0]["spec"]
    claim = mounts_of(pod["initContainers"][-1])["/gangline/claims/disk"]
    assert (claim["readOnly"], "/gangline/claims/disk" in mounts_of(pod["containers"][0])) == (False, False)
    assert {"name": claim["name"], "persistentVolumeClaim": {"claimName": "disk"}} in pod["volumes"]


@pytest.mark.parametrize("to", ["/disk/runs", "https://host/runs", "model://runs", "job://a/checkpoints"])
def test_checkpoints_go_nowhere_that_cannot_keep_them(to: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_data(make_spec(checkpoints=CheckpointRule(to=to)))
    assert refused.value.field == "checkpoints.to"


def test_only_the_lead_stores_results() -> None:
    first, second = make_pods(outputs=(DataMove("$RESULT_DIR", "s3://bucket/$JOB_NAME"),))
    assert [container["name"] for container in first["spec"]["containers"]] == ["main", "gangline-outputs"]
    assert [container["name"] for container in second["spec"]["containers"]] == ["main"]


LOSSES = MetricSource(
    path="$RESULT_DIR/log", format=MetricFormat.PATTERN, pattern=r"(?P<loss>.*)$$(x)", values={"loss": "loss"}
)


def test_files_with_metrics_are_read_beside_the_lead_alone_in_what_it_shares() -> None:
    lead, worker = make_pods(metrics=(LOSSES,))
    (collector,) = lead["spec"]["initContainers"]
    assert collector["restartPolicy"] == "Always"
    assert collector["image"] == "acme/gangline:1"
    assert [(at, each["readOnly"]) for at, each in mounts_of(collector).items()] == [("/gangline/results", True)]
    told = {each["name"]: each["value"] for each in collector["env"]}["GANGLINE_COLLECTOR"]
    (source,) = json.loads(told.replace("$$", "$"))["sources"]
    assert source == {**asdict(LOSSES), "path": "/gangline/results/log"}
    assert "initContainers" not in worker["spec"]


def test_files_that_no_other_container_can_read_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"/var/log/x is in none of the lead replica's directories") as caught:
        check_data(make_spec(metrics=(replace(LOSSES, path="/var/log/x"),)))
    assert caught.value.field == "metrics[0].from"
    template = {"spec": {"containers": [{"volumeMounts": [{"name": "logs", "mountPath": "/var/log"}]}]}}
    role = make_role(pod_template_json=json.dumps(template))
    check_data(make_spec(roles=(role,), metrics=(replace(LOSSES, path="/var/log/x"),)))


def test_a_claim_is_mounted_at_the_target_and_only_read() -> None:
    pod = make_pods(inputs=(DataMove("pvc://sets/mnist", "$DATA_DIR"),))[0]
    mount = mounts_of(pod["spec"]["containers"][0])["/gangline/data"]
    claims = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [{"name": mount["name"], "persistentVolumeClaim": {"claimName": "sets"}}]
    assert (mount["subPath"], mount["readOnly"]) == ("mnist", True)


def test_what_lies_on_a_claim_is_copied_to_where_the_program_writes() -> None:
    move = DataMove("pvc://disk/best/checkpoints", "$CHECKPOINT_DIR")
    pod = make_pods(inputs=(move,))[0]
    assert "readOnly" not in mounts_of(pod["spec"]["containers"][0])["/gangline/checkpoints"]
    moves = gang_to_moves(make_gang(make_spec(roles=(make_role(image="any"),), inputs=(move,))), Surroundings())
    assert moves is not None
    (entry,) = json.loads(moves["data"]["moves.json"])["inputs"]
    assert entry["move"][:2] == ["/gangline/claims/disk/best/checkpoints", "/gangline/checkpoints"]
    assert "mounted" not in entry


def test_the_movers_order_says_what_lies_where() -> None:
    inputs = (DataMove("/home/me/a.txt", "$DATA_DIR/b.txt"), DataMove("https://host/x", "$DATA_DIR"))
    spec = make_spec(
        roles=(make_role(image="any"),), inputs=inputs, outputs=(DataMove("$RESULT_DIR", "pvc://keep/$JOB_NAME"),)
    )
    moves = gang_to_moves(make_gang(spec), Surroundings(job_archives=JobArchives(inputs={0: INPUT})))
    assert moves is not None
    order = json.loads(moves["data"]["moves.json"])
    first, second = order["inputs"]
    assert (first["parts"], first["name"], first["move"][1]) == (
        "/gangline/archives/input-0",
        "a.txt",
        "/gangline/data/b.txt",
    )
    assert second["move"][:2] == ["https://host/x", "/gangline/data"]
    assert order["outputs"][0]["move"][:2] == ["/gangline/results", f"/gangline/claims/keep/{spec.name}"]


@pytest.mark.parametrize(
    ("source", "want_local"),
    [
        ("/home/me/set", True),
        ("file:///home/me/set", True),
        ("s3://bucket/set", False),
        ("pvc://claim/set", False),
        ("$CHECKPOINT_DIR/old", False),
    ],
)
def test_paths_of_the_submitter_are_told_from_other_places(source: str, want_local: bool) -> None:
    spec = make_spec(inputs=(DataMove(source, "$DATA_DIR"),))
    assert local_inputs(spec) == ({0: source} if want_local else {})


@pytest.mark.parametrize(
    ("fields", "want_field", "want_message"),
    [
        ({"outputs": (DataMove("$RESULT_DIR", "/home/me"),)}, "data.outputs[0].to", "no other machine's disk"),
        ({"outputs": (DataMove("$RESULT_DIR", "https://host/x"),)}, "data.outputs[0].to", "nothing can be stored"),
        ({"outputs": (DataMove("/etc", "s3://b/x"),)}, "data.outputs[0].from", "none of a replica's directories"),
        ({"inputs": (DataMove("s3://b/x", "/data"),)}, "data.inputs[0].to", "none of a replica's directories"),
        ({"inputs": (DataMove("s3://b/x", "$DATA_DIR/../x"),)}, "data.inputs[0].to", "none of a replica's directories"),
        (
            {"inputs": (DataMove("pvc://c/x", "$DATA_DIR", unpack=True),)},
            "data.inputs[0].unpack",
            "mounted, not copied",
        ),
    ],
    ids=[
        "a path as output",
        "http as output",
        "output from elsewhere",
        "input to elsewhere",
        "input out of its place",
        "a claim to unpack",
    ],
)
def test_moves_that_no_cluster_can_make_are_refused(fields: Any, want_field: str, want_message: str) -> None:
    with pytest.raises(InvalidInputError, match=want_message) as caught:
        check_data(make_spec(**fields))
    assert caught.value.field == want_field


def mpi_pods(worker: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    launcher = make_role("launcher", command=("mpirun", "train"), image="any")
    roles = (launcher, make_role("worker", command=worker, image="any"))
    gang = make_gang(make_spec(roles=roles, framework=Framework.MPI))
    pods = gang_to_pods(gang, gang.replicas, Surroundings())
    return {pod["metadata"]["labels"]["gangline.dev/role"]: pod["spec"]["containers"][0] for pod in pods}


def test_mpi_workers_answer_the_launcher() -> None:
    containers = mpi_pods(("sleep", "infinity"))
    assert containers["launcher"]["command"] == ["mpirun", "train"]
    assert containers["worker"]["command"] == [PROGRAM, "serve", "sleep", "infinity"]
    environment = {variable["name"]: variable.get("value") for variable in containers["launcher"]["env"]}
    assert environment["OMPI_MCA_plm_rsh_agent"] == PROGRAM


def test_mpi_workers_that_run_sshd_are_left_alone() -> None:
    containers = mpi_pods(("/usr/sbin/sshd", "-De"))
    assert containers["worker"]["command"] == ["/usr/sbin/sshd", "-De"]
    assert "OMPI_MCA_plm_rsh_agent" not in {variable["name"] for variable in containers["launcher"]["env"]}
