"""What brings data into pods and results out of them."""

import json
from typing import Any

import pytest

from gangline.engines.kubernetes.archives import Archive
from gangline.engines.kubernetes.manifests import Surroundings, gang_to_moves, gang_to_pods
from gangline.engines.kubernetes.mpi_shell import PROGRAM
from gangline.engines.kubernetes.staging import Stock, check_data, local_inputs
from gangline.errors import InvalidInputError
from gangline.model import DataMove, Framework, Gang, GangId, GangReplica, JobId, JobSpec, NodeName, ReplicaId
from gangline.testing.builders import make_role, make_spec

CODE = Archive(name="mnist-code", digest="c" * 64, parts=2)
INPUT = Archive(name="mnist-inputs-0", digest="d" * 64, parts=1, file="a.txt")


def make_pods(stock: Stock | None = None, *, replicas: int = 2, **fields: Any) -> list[dict[str, Any]]:
    role = make_role(image="acme/train:1", replicas=replicas)
    gang = make_gang(make_spec(roles=(role,), **fields))
    return list(gang_to_pods(gang, gang.replicas, Surroundings(stock=stock or Stock())))


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
    pod = make_pods(Stock(code=CODE), code="sha256:" + "c" * 64)[0]
    (unpack,) = pod["spec"]["initContainers"]
    assert unpack["image"] == "acme/train:1"
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    parts = [mount for path, mount in sorted(mounts_of(unpack).items()) if path.startswith("/gangline/archives/code/")]
    assert [volumes[mount["name"]]["configMap"]["name"] for mount in parts] == CODE.part_names()


def test_the_mover_has_what_the_program_has() -> None:
    pod = make_pods(inputs=(DataMove("s3://bucket/set", "$DATA_DIR"),), env={"AWS_REGION": "moon"})[0]
    (mover,) = pod["spec"]["initContainers"]
    (program,) = pod["spec"]["containers"]
    assert mover["env"] == program["env"]
    assert mover["securityContext"] == program["securityContext"]
    assert mounts_of(mover)["/gangline/data"] == mounts_of(program)["/gangline/data"]


def test_the_mover_may_have_an_image_of_its_own() -> None:
    gang = make_gang(make_spec(roles=(make_role(image="acme/train:1"),), inputs=(DataMove("s3://b/s", "$DATA_DIR"),)))
    (pod,) = gang_to_pods(gang, gang.replicas, Surroundings(mover_image="acme/gangline:1"))
    assert pod["spec"]["initContainers"][0]["image"] == "acme/gangline:1"
    assert pod["spec"]["containers"][0]["image"] == "acme/train:1"


def test_only_the_lead_stores_results() -> None:
    first, second = make_pods(outputs=(DataMove("$RESULT_DIR", "s3://bucket/$JOB_NAME"),))
    assert [container["name"] for container in first["spec"]["containers"]] == ["main", "gangline-outputs"]
    assert [container["name"] for container in second["spec"]["containers"]] == ["main"]


def test_a_claim_is_mounted_at_the_target_and_only_read() -> None:
    pod = make_pods(inputs=(DataMove("pvc://sets/mnist", "$DATA_DIR"),))[0]
    mount = mounts_of(pod["spec"]["containers"][0])["/gangline/data"]
    claims = [volume for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [{"name": mount["name"], "persistentVolumeClaim": {"claimName": "sets"}}]
    assert (mount["subPath"], mount["readOnly"]) == ("mnist", True)


def test_the_movers_order_says_what_lies_where() -> None:
    inputs = (DataMove("/home/me/a.txt", "$DATA_DIR/b.txt"), DataMove("https://host/x", "$DATA_DIR"))
    spec = make_spec(
        roles=(make_role(image="any"),), inputs=inputs, outputs=(DataMove("$RESULT_DIR", "pvc://keep/$JOB_NAME"),)
    )
    moves = gang_to_moves(make_gang(spec), Surroundings(stock=Stock(inputs={0: INPUT})))
    assert moves is not None
    order = json.loads(moves["data"]["moves.json"])
    first, second = order["inputs"]
    assert (first["parts"], first["name"], first["to"]) == (
        "/gangline/archives/input-0",
        "a.txt",
        "/gangline/data/b.txt",
    )
    assert (second["from"], second["to"]) == ("https://host/x", "/gangline/data")
    assert order["outputs"] == [{"from": "/gangline/results", "to": f"/gangline/claims/keep/{spec.name}"}]
    assert "def move(" in moves["data"]["moving.py"]


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
    ],
    ids=["a path as output", "http as output", "output from elsewhere", "input to elsewhere", "input out of its place"],
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
