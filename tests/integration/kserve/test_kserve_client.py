"""The PyPI package kserve, unmodified, creates, waits for, changes and deletes InferenceServices on one machine."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.environments import environment_with
from tests.integration.kubeflow.conftest import LocalService
from tests.integration.kubeflow.test_behaviour import eventually

KSERVE = ("kserve==0.21.0", "kubernetes==32.0.1")
"""With a release of the Kubernetes client that takes its objects: the newest wants plain mappings."""
SCENARIOS = Path(__file__).with_name("client_scenarios.py")


def play(kubeconfig: str, *words: str) -> dict[str, Any]:
    """Return what the client saw."""
    done = subprocess.run(
        [environment_with(*KSERVE), "-W", "ignore", SCENARIOS, *words],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def saw(service: LocalService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("model")
    np.savez(folder / "weights.npz", weight0=np.array([[2.0], [3.0]], np.float32), bias0=np.array([1.0], np.float32))
    yield play(str(service.kubeconfig), str(folder), "default")
    router = service.kubeconfig.with_name("home") / "router" / "process"
    eventually(lambda: not router.exists())  # what was deleted is drained first, and only then the router ends


def test_a_model_is_served_from_its_creation_to_its_deletion(saw: dict[str, Any]) -> None:
    model = saw["model"]
    assert model["predictions"] == [[9.0]]
    assert model["annotations"] == {"note": "kept"}
    assert model["generation"] == [1, 1]
    assert set(model["conditions"].values()) == {"True"}
    assert model["conditions"].keys() >= {"Ready", "PredictorReady", "IngressReady"}
    assert model["model"] == "Loaded"
    assert model["traffic"] == [{"revisionName": "digits-predictor-00001", "percent": 100, "latestRevision": True}]
    assert "digits" in model["listed"]
    assert saw["gone"] == [True, True, True]


def test_a_canary_has_its_share_until_it_is_promoted(saw: dict[str, Any]) -> None:
    canary = saw["canary"]
    assert canary["split"] == {"one": 16, "two": 4}
    assert canary["promoted"] == {"two": 5}
    assert canary["generations"] == [2, 3]
    assert canary["rolled out"] == "words-predictor-00002"


def test_requests_go_through_a_transformer_until_it_is_taken_away(saw: dict[str, Any]) -> None:
    seen = saw["transformer"]
    assert (seen["predictor"], seen["predictions"]) == ([[9.0]], [[117.0]])
    assert seen["conditions"].keys() >= {"Ready", "PredictorReady", "TransformerReady", "IngressReady"}
    assert set(seen["conditions"].values()) == {"True"}
    assert seen["components"] == {
        "predictor": "changed-predictor-00001",
        "transformer": "changed-transformer-00001",
    }
    assert (seen["alone"], seen["predictions alone"]) == (["predictor"], [[9.0]])


def test_what_cannot_be_served_is_refused_with_its_field(saw: dict[str, Any]) -> None:
    assert "spec.predictor.model.modelFormat.name" in saw["refusals"]["format"]
    assert "spec.predictor" in saw["refusals"]["empty"]
