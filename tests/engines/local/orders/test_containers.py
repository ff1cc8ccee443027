"""What a pod template asks of a machine without containers."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gangline.dialects import read_plain
from gangline.engines.local.layout import Layout
from gangline.engines.local.orders.containers import Surroundings, surround
from gangline.errors import EngineError
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId

REPLICA = GangReplica(id=ReplicaId.parse("worker-0"), node=NodeName("node-0"), incarnation=0, started=False)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "home")


def keep(layout: Layout, kind: str, name: str, **fields: object) -> None:
    plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
    file = layout.objects("default") / plural / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"kind": kind, "metadata": {"name": name}, **fields}))


def surrounded(
    layout: Layout,
    *,
    volumes: list[Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **container: object,
) -> Surroundings:
    """Surround the first worker of a job whose training container has these fields."""
    training = {"name": "tensorflow", "image": "any", "command": ["true"], **container}
    pod = {"containers": [{"name": "sidecar", "image": "any"}, training], "volumes": volumes or []}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist"},
        "spec": {"tfReplicaSpecs": {"Worker": {"template": {"metadata": metadata or {}, "spec": pod}}}},
    }
    (translation,) = read_plain(document)
    gang = Gang(id=GangId(JobId("job-1"), 1), spec=translation.spec, replicas=(REPLICA,))
    environment = {"PATH": "/usr/bin", "HOME": "/data/home", "RANK": "7"}
    return surround(layout, gang, REPLICA, environment, address="127.1.0.9")


def mount(volume: dict[str, Any], path: str, **fields: object) -> dict[str, Any]:
    """One volume and its mount, as arguments of ``surrounded``."""
    return {"volumes": [{"name": "data", **volume}], "volumeMounts": [{"name": "data", "mountPath": path, **fields}]}


def test_references_to_variables_are_replaced_as_a_kubelet_does(layout: Layout) -> None:
    env = [{"name": "RATE", "value": "0.1"}, {"name": "FLAG", "value": "--rate=$(RATE)"}]
    found = surrounded(layout, command=["train", "$(FLAG)", "$(RANK)", "$(UNKNOWN)", "$$(RATE)"], env=env)
    assert found.command == ("train", "--rate=0.1", "7", "$(UNKNOWN)", "$(RATE)")


def test_what_is_not_text_is_no_variable(layout: Layout) -> None:
    binary = {name: base64.b64encode(value).decode() for name, value in (("store", b"a\0b"), ("picture", b"\xff\xd8"))}
    keep(layout, "Secret", "keys", data=binary, stringData={"user": "ada"})
    found = surrounded(layout, envFrom=[{"secretRef": {"name": "keys"}}])
    assert found.environment["user"] == "ada"
    assert not {"store", "picture"} & found.environment.keys()
    asked = {"name": "STORE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "store"}}}
    with pytest.raises(EngineError, match="key 'store' of Secret 'keys' is not text"):
        surrounded(layout, env=[asked])


def test_base64_may_have_line_breaks_and_nothing_else(layout: Layout) -> None:
    keep(layout, "Secret", "keys", data={"token": "c2Vz\nYW1l\n"})
    assert surrounded(layout, envFrom=[{"secretRef": {"name": "keys"}}]).environment["token"] == "sesame"
    keep(layout, "Secret", "keys", data={"token": "!sesame"})
    with pytest.raises(EngineError, match="the value of key 'token' is not base64"):
        surrounded(layout, envFrom=[{"secretRef": {"name": "keys"}}])


def test_variables_come_from_objects_and_from_the_pod_itself(layout: Layout) -> None:
    keep(layout, "ConfigMap", "words", data={"greeting": "hello"})
    keep(layout, "Secret", "keys", data={"token": base64.b64encode(b"sesame").decode()}, stringData={"user": "ada"})
    found = surrounded(
        layout,
        envFrom=[{"configMapRef": {"name": "words"}, "prefix": "W_"}, {"secretRef": {"name": "keys"}}],
        env=[
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a", "optional": True}}},
        ],
    )
    told = {name: found.environment.get(name) for name in ("W_greeting", "user", "TOKEN", "ME", "IP", "MAYBE")}
    want = {"W_greeting": "hello", "user": "ada", "TOKEN": "sesame", "ME": "mnist-worker-0", "IP": "127.1.0.9"}
    assert told == {**want, "MAYBE": None}


def test_a_pod_knows_its_labels_and_annotations_and_those_it_has_not_are_empty(layout: Layout) -> None:
    paths = {
        "TEAM": "metadata.labels['team']",
        "NOTE": "metadata.annotations['example.com/note']",
        "NO_LABEL": "metadata.labels['other']",
        "NO_NOTE": "metadata.annotations['team']",
    }
    found = surrounded(
        layout,
        metadata={"labels": {"team": "vision"}, "annotations": {"example.com/note": "it's 3"}},
        env=[{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()],
    )
    assert {name: found.environment.get(name) for name in paths} == {
        "TEAM": "vision",
        "NOTE": "it's 3",
        "NO_LABEL": "",
        "NO_NOTE": "",
    }


def test_an_empty_directory_is_the_replicas_own(layout: Layout) -> None:
    found = surrounded(
        layout, command=["train", "--out=/cache/x", "/cached", "see:/cache"], **mount({"emptyDir": {}}, "/cache")
    )
    own = found.environment["GANGLINE_VOLUME_DATA"]
    assert Path(own).is_dir()
    assert Path(own).is_relative_to(layout.root)
    assert found.command == ("train", f"--out={own}/x", "/cached", f"see:{own}")


def test_a_directory_of_the_machine_is_read_at_the_mount_path(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "mnist" / "part").mkdir(parents=True)
    env = [{"name": "DATA", "value": "/data/images"}]
    host = {"hostPath": {"path": str(tmp_path / "mnist")}}
    found = surrounded(layout, command=["sh", "-c", "ls '/data' /data/x"], env=env, **mount(host, "/data"))
    assert found.command[2] == f"ls '{tmp_path}/mnist' {tmp_path}/mnist/x"
    assert found.environment["DATA"] == f"{tmp_path}/mnist/images"
    assert found.environment["HOME"] == "/data/home", "only what the user wrote speaks of mount paths"
    below = surrounded(layout, command=["ls", "/data"], **mount(host, "/data", subPath="part"))
    assert below.command == ("ls", f"{tmp_path}/mnist/part")


def test_objects_become_files_that_only_the_owner_can_read(layout: Layout) -> None:
    keep(layout, "Secret", "keys", stringData={"token": "sesame", "other": "x"})
    volume = {"secret": {"secretName": "keys", "items": [{"key": "token", "path": "deep/token.txt"}]}}
    found = surrounded(layout, command=["cat", "/keys/deep/token.txt"], **mount(volume, "/keys"))
    file = Path(found.command[1])
    assert file.read_text() == "sesame"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not (file.parent.parent / "other").exists()


def test_a_volume_claim_is_a_directory_that_stays(layout: Layout) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "models"}}
    found = surrounded(layout, command=["ls", "/models"], **mount(claim, "/models"))
    assert Path(found.command[1]) == layout.claims("default") / "models"


def test_the_working_directory_is_taken_if_this_machine_has_it(layout: Layout, tmp_path: Path) -> None:
    assert surrounded(layout, workingDir=str(tmp_path)).directory == str(tmp_path)
    assert surrounded(layout, workingDir="/only/in/the/image").directory is None
    host = {"hostPath": {"path": str(tmp_path)}}
    assert surrounded(layout, workingDir="/data", **mount(host, "/data")).directory == str(tmp_path)


def test_packages_go_to_the_replica_alone(layout: Layout) -> None:
    found = surrounded(layout)
    packages = found.environment["PIP_TARGET"]
    assert Path(packages).is_relative_to(layout.root)
    assert found.environment["PYTHONPATH"] == packages
    assert found.environment["PATH"] == f"{packages}/bin:/usr/bin"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(mount({"nfs": {"server": "a", "path": "/"}}, "/d"), "cannot provide: nfs", id="another kind"),
        pytest.param(mount({"hostPath": {"path": "/no/such"}}, "/d"), "/no/such does not exist", id="no directory"),
        pytest.param(mount({"configMap": {"name": "none"}}, "/d"), "no ConfigMap 'none'", id="no object"),
        pytest.param(mount({"emptyDir": {}}, "/d", subPath="../../x"), "leads out", id="out of the volume"),
        pytest.param({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "'x'.*not defined", id="no volume"),
        pytest.param({"envFrom": [{"secretRef": {"name": "none"}}]}, "no Secret 'none'", id="no secret"),
    ],
)
def test_what_this_machine_cannot_provide_is_refused(layout: Layout, arguments: dict[str, Any], want: str) -> None:
    with pytest.raises(EngineError, match=want):
        surrounded(layout, **arguments)
