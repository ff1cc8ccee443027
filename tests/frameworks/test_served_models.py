"""Models of the real torch and TensorFlow, served without any code, answer what the libraries answer."""

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from tests.frameworks.conftest import PROJECT
from tests.serve.conftest import Serving, started_servers
from tools.frameworks import frameworks_python

pytestmark = pytest.mark.frameworks


class Models:
    """A server of the models, and what the libraries answered."""

    def __init__(self, serving: Serving, answers: dict[str, Any]) -> None:
        self._serving = serving
        self.answers = answers

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 300
        while True:
            try:
                self.get("/v2/health/ready")
                return
            except HTTPError:  # they are being loaded
                assert time.monotonic() < deadline, self._serving.log.read_text()
                threading.Event().wait(0.2)

    def get(self, path: str) -> Any:
        with urlopen(f"{self._serving.address}{path}", timeout=60) as answer:
            return json.load(answer)

    def post(self, path: str, body: object) -> tuple[int, Any]:
        request = Request(f"{self._serving.address}{path}", data=json.dumps(body).encode(), method="POST")
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def infer(self, model: str, **tensors: Any) -> dict[str, Any]:
        inputs = [
            {"name": name, "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
            for name, array in tensors.items()
        ]
        status, said = self.post(f"/v2/models/{model}/infer", {"inputs": inputs})
        assert status == 200, said
        return {each["name"]: np.reshape(each["data"], each["shape"]) for each in said["outputs"]}


@contextmanager
def served(place: Path, library: str) -> Iterator[Models]:
    python, script = frameworks_python(), PROJECT / "tests" / "frameworks" / "served_models.py"
    subprocess.run([python, script, library, place / "models"], check=True, capture_output=True, timeout=300)
    answers = (place / "models" / "answers.npz").rename(place / "answers.npz")
    with started_servers(place, python) as start:
        serving = start("--repository", str(place / "models"), "--timeout", "120", "--batch", "16")
        models = Models(serving, dict(np.load(answers)))
        models.wait_ready()
        yield models


@pytest.fixture(scope="module")
def torch_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    with served(tmp_path_factory.mktemp("torch"), "torch") as models:
        yield models


@pytest.fixture(scope="module")
def tensorflow_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    with served(tmp_path_factory.mktemp("tensorflow"), "tensorflow") as models:
        yield models


@pytest.mark.parametrize("model", ["torchscript", "exported", "fixed"])
def test_answers_are_those_of_torch(torch_models: Models, model: str) -> None:
    found = torch_models.infer(model, input=torch_models.answers["rows"])
    np.testing.assert_allclose(found["output"], torch_models.answers["answers"], rtol=1e-5, atol=1e-6)


def test_answers_are_those_of_tensorflow(tensorflow_models: Models) -> None:
    found = tensorflow_models.infer("keras", pixels=tensorflow_models.answers["rows"])
    np.testing.assert_allclose(found["output_0"], tensorflow_models.answers["answers"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["both", "traced"])
def test_tensors_go_by_their_names_in_whatever_order_they_are_sent(torch_models: Models, model: str) -> None:
    left, right = torch_models.answers["rows"], torch_models.answers["others"]
    found = torch_models.infer(model, right=right, left=left)
    np.testing.assert_allclose(found["difference"], left - right, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["short"], left + right, rtol=0.01, atol=0.01)


def test_metadata_says_what_a_model_takes(torch_models: Models, tensorflow_models: Models) -> None:
    described = {name: torch_models.get(f"/v2/models/{name}") for name in ("exported", "fixed")}
    described |= {name: tensorflow_models.get(f"/v2/models/{name}") for name in ("keras", "text")}
    assert described["exported"]["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 8]}]
    assert described["fixed"]["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [5, 8]}]
    assert described["keras"]["inputs"] == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 8]}]
    assert described["text"]["inputs"] == []
    assert [each["platform"] for each in described.values()] == ["torch-export"] * 2 + ["tensorflow"] * 2


def test_what_tensorflow_serving_is_sent_is_answered_as_it_answers(tensorflow_models: Models) -> None:
    rows = tensorflow_models.answers["rows"]
    want = tensorflow_models.answers["answers"]
    status, said = tensorflow_models.post("/v1/models/keras/versions/1:predict", {"instances": rows.tolist()})
    assert status == 200
    np.testing.assert_allclose(said["predictions"], want, rtol=1e-5, atol=1e-6)
    body = {"signature_name": "serving_default", "inputs": {"pixels": rows.tolist()}}
    np.testing.assert_allclose(
        tensorflow_models.post("/v1/models/keras:predict", body)[1]["outputs"], want, rtol=1e-5, atol=1e-6
    )
    named = [{"pixels": row} for row in rows.tolist()]
    assert len(tensorflow_models.post("/v1/models/keras:predict", {"instances": named})[1]["predictions"]) == len(rows)
    assert tensorflow_models.get("/v1/models/keras")["model_version_status"][0]["state"] == "AVAILABLE"
    (signature,) = tensorflow_models.get("/v1/models/keras/metadata")["metadata"]["signature_def"][
        "signature_def"
    ].values()
    assert signature["inputs"]["pixels"]["tensor_shape"]["dim"][1]["size"] == "8"
    words = {"inputs": {"some": [[1.5]], "words": [{"b64": "YWJj"}]}}
    assert tensorflow_models.post("/v1/models/text:predict", words) == (
        200,
        {"outputs": {"twice": [[3.0]], "loud": ["ABC"]}},
    )


def test_whole_numbers_and_wrong_shapes_are_told_apart(torch_models: Models) -> None:
    assert torch_models.post("/v1/models/exported:predict", {"instances": [[1] * 8]})[0] == 200
    refused = torch_models.post("/v1/models/fixed:predict", {"instances": [[1] * 8]})
    assert refused == (400, {"error": "input 'input': shape [1, 8] does not fit [5, 8]"})


async def test_requests_at_once_are_joined_and_each_gets_its_own_rows(torch_models: Models) -> None:
    rows, want = torch_models.answers["rows"], torch_models.answers["answers"]
    asked = [asyncio.to_thread(torch_models.infer, "exported", input=rows[index : index + 1]) for index in range(5)]
    for index, found in enumerate(await asyncio.gather(*asked)):
        np.testing.assert_allclose(found["output"][0], want[index], rtol=1e-5, atol=1e-6)
