"""The PyPI package kubeflow-training, unmodified, drives the local service."""

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import run_by
from tests.integration.kubeflow.conftest import LocalService
from tests.integration.kubeflow.training_sdk import SCENARIOS

MASTERS = {
    "TFJob": ("chief-0", "chief"),
    "PyTorchJob": ("master-0", "master"),
    "MPIJob": ("launcher", "launcher"),
    "JAXJob": ("worker-0", "worker"),
}
CONTROLLERS = {kind: f"{kind.lower()}-controller" for kind in MASTERS}


@pytest.fixture(scope="module")
def saw(service: LocalService, sdk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every scenario saw; they run side by side in one process of the SDK's."""
    place = tmp_path_factory.mktemp("sdk")
    wheel = make_wheel(place)
    done = subprocess.run(
        [str(sdk_python), "-W", "ignore", str(SCENARIOS), str(service.kubeconfig), str(wheel), str(place)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_the_manual_shows_of_the_sdk_works(service: LocalService, sdk_python: Path, tmp_path: Path) -> None:
    (block,) = run_by(__file__)
    (tmp_path / "program.py").write_text(block.text)
    environment = {**os.environ, "KUBECONFIG": str(service.kubeconfig)}
    command = [str(sdk_python), "-W", "ignore", str(tmp_path / "program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["mnist-worker-0", "training"]


def make_wheel(directory: Path) -> Path:
    """A package of one word, installed by replicas without any network."""
    wheel = directory / "gangline_test_package-1.0-py3-none-any.whl"
    information = "gangline_test_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gangline_test_package.py", "WORD = 'installed'\n")
        archive.writestr(
            f"{information}/METADATA", "Metadata-Version: 2.1\nName: gangline_test_package\nVersion: 1.0\n"
        )
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return wheel


def outcome(saw: dict[str, Any], scenario: str) -> Any:
    assert "saw" in saw[scenario], saw[scenario].get("failed")
    return saw[scenario]["saw"]


@pytest.mark.parametrize("kind", list(MASTERS))
def test_a_job_lives_from_its_object_to_its_deletion(saw: dict[str, Any], kind: str) -> None:
    seen = outcome(saw, f"life {kind}")
    name = f"life-{kind.lower()}"
    pod, role = f"{name}-{MASTERS[kind][0]}", MASTERS[kind][1]
    assert seen["pods"][pod][0] == "Running"
    assert seen["pods"][pod][1] == {
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/job-role": "master",
        "training.kubeflow.org/operator-name": CONTROLLERS[kind],
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": "0",
    }
    assert len(seen["pods"]) == 2
    assert seen["master"] == [pod]
    assert seen["worker"] == [f"{name}-worker-0"]
    assert seen["followed"] == {pod: "beginend"}, "the SDK joins the lines it follows"
    assert seen["logs"] == {pod: "begin\nend\n"}
    assert set(seen["events"]) == {f"pod/{pod}", f"{kind.lower()}/{name}"}
    assert seen["listed"]
    assert seen["conditions"] == {"Created": "True", "Running": "False", "Succeeded": "True"}
    assert seen["succeeded"]
    assert seen["completed"]
    assert seen["annotations"] == {"note": "mine"}
    assert seen["uid_is_stable"]
    assert seen["container"] == ["any"]
    assert "(404)" in seen["after_deletion"]


@pytest.mark.parametrize("kind", list(MASTERS))
def test_a_job_is_suspended_changed_and_resumed(saw: dict[str, Any], kind: str) -> None:
    seen = outcome(saw, f"suspension {kind}")
    assert seen["created"] == {"Created": "True", "Suspended": "True"}
    assert seen["pods_created"] == []
    assert "has been started" in seen["refused"]
    assert seen["suspended"] == {"Created": "True", "Running": "False", "Suspended": "True"}
    assert seen["resumed"]["Running"] == "True"
    assert seen["resumed"]["Suspended"] == "False"
    assert seen["labels"] == {"team": "other"}


@pytest.mark.parametrize(("kind", "pods"), [("TFJob", ["worker-0", "worker-1"]), ("PyTorchJob", ["master-0"])])
def test_a_function_is_trained_with_the_packages_it_needs(saw: dict[str, Any], kind: str, pods: list[str]) -> None:
    logs = outcome(saw, f"function {kind}")
    assert sorted(logs) == [f"function-{kind.lower()}-{pod}" for pod in pods]
    # A gang whose first worker is done is done: the second may have been stopped in the middle.
    assert "rate 0.5 word installed role trainer\n" in logs[f"function-{kind.lower()}-{pods[0]}"]


def test_what_a_function_installs_does_not_reach_the_users_python(saw: dict[str, Any]) -> None:
    outcome(saw, "function PyTorchJob")
    with pytest.raises(ModuleNotFoundError):
        __import__("gangline_test_package")


def test_an_image_without_a_command_is_refused_with_the_reason(saw: dict[str, Any]) -> None:
    refusal = outcome(saw, "image PyTorchJob")
    assert "(422)" in refusal
    assert "this machine runs commands, not images" in refusal


def test_config_maps_and_secrets_reach_the_job(saw: dict[str, Any]) -> None:
    seen = outcome(saw, "objects TFJob")
    assert seen["logs"] == {"objects-chief-0": "hello\nsesame world world objects-chief-0\nmade\n"}
    assert seen["left"] == ["words"]
