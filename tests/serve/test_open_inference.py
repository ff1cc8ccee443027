"""The server under schemathesis, by the description of the Open Inference Protocol that MLServer's wheel has."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environments import environment_with
from tests.serve.conftest import Start

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
ECHO = "class Model:\n    def load(self, folder): pass\n    def predict(self, inputs): return dict(inputs)\n"
NAMES = {"model_name": ["echo", "nothing"], "model_version": ["1", "2"]}
TENSORS = [
    {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, -2.5]},
    {"name": "n", "shape": [1, 2], "datatype": "INT64", "data": [[1, 2]]},
    {"name": "t", "shape": [1], "datatype": "BYTES", "data": ["text"]},
    {"name": "b", "shape": [0], "datatype": "BOOL", "data": []},
]


def published() -> dict[str, Any]:
    """What MLServer says of the protocol, without its own additions and with the type it misspells."""
    python = environment_with("--no-deps", "mlserver==1.7.1")
    (file,) = (python.parents[1] / "lib").glob("python*/site-packages/mlserver/rest/openapi/dataplane.json")
    document: dict[str, Any] = json.loads(file.read_text())
    paths = document["paths"]
    document["paths"] = {path: paths[path] for path in paths if not path.endswith(("stream", "generate"))}
    document["components"]["schemas"]["TensorData"] = {"type": "array"}
    return document


def within_reach(document: dict[str, Any]) -> dict[str, Any]:
    """Ask for a model that is there and one that is not, with tensors that fit as often as with others."""
    for row in document["paths"].values():
        for each in (parameter for part in row.values() for parameter in _parameters(part)):
            each["schema"] = {"type": "string", "enum": NAMES[each["name"]]}
        if "post" not in row:  # how a model that is not there is not ready it does not say
            row["get"]["responses"].setdefault("404", {"description": "no such model"})
    tensor = document["components"]["schemas"]["RequestInput"]
    document["components"]["schemas"]["RequestInput"] = {"anyOf": [tensor, {"enum": TENSORS}]}
    return document


def _parameters(part: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = part if isinstance(part, list) else part.get("parameters", [])
    return found


@pytest.mark.slow
async def test_every_answer_is_one_that_the_protocol_describes(start: Start, tmp_path: Path) -> None:
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / "handler.py").write_text(ECHO)
    document = tmp_path / "document.json"
    document.write_text(json.dumps(within_reach(await asyncio.to_thread(published))))
    address = start("--model", f"echo={tmp_path / 'echo'}").address
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--phases", "coverage,fuzzing", "--checks", CHECKS, "--max-examples", "50", "--seed", "1"]
    command = [program, "run", document, "--url", address, *options]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert "9 selected / 9 total" in ran.stdout
