"""Asks a server with Triton's own clients: python triton.py HTTP_ADDRESS GRPC_ADDRESS... ANSWERS."""

import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

ANSWERS = np.load(sys.argv[-1])
CASES = (
    ("onnx", "x", "rows", {"y": "onnx"}),
    ("numpy", "input", "rows", {"scores": "numpy"}),
    ("sklearn", "input", "flowers", {"predict": "sklearn", "predict_proba": "chances"}),
    ("xgboost", "input", "flowers", {"predict": "xgboost"}),
)


def ask(library, client, model, name, array, outputs, **how):
    type_name = {"float32": "FP32", "float64": "FP64"}[array.dtype.name]
    tensor = library.InferInput(name, array.shape, type_name)
    tensor.set_data_from_numpy(array, **how)
    wanted = [library.InferRequestedOutput(output, **how) for output in outputs]
    return client.infer(model, [tensor], outputs=wanted, request_id="17")


def check(library, client, **how):
    assert client.is_server_live()
    assert client.is_server_ready()
    for model, name, given, outputs in CASES:
        assert client.is_model_ready(model), model
        array = ANSWERS[given].astype(np.float32) if model == "xgboost" else ANSWERS[given]
        found = ask(library, client, model, name, array, outputs, **how)
        for output, answer in outputs.items():
            np.testing.assert_allclose(found.as_numpy(output), ANSWERS[answer], rtol=1e-5, err_msg=f"{model} {output}")
    said = ""
    try:
        ask(library, client, "nothing", "x", ANSWERS["rows"], {"y": ""}, **how)
    except InferenceServerException as error:
        said = str(error)
    assert "there is no model 'nothing'" in said, said


http = tritonclient.http.InferenceServerClient(sys.argv[1].removeprefix("http://"))
check(tritonclient.http, http, binary_data=True)
check(tritonclient.http, http, binary_data=False)
assert http.get_model_metadata("onnx")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
assert http.get_server_metadata()["name"] == "gangline"
assert {model["state"] for model in http.get_model_repository_index()} == {"READY"}
http.unload_model("numpy")
assert not http.is_model_ready("numpy")
http.load_model("numpy")
assert http.is_model_ready("numpy")


def check_stream(client):
    answers = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    tensor = tritonclient.grpc.InferInput("x", ANSWERS["rows"].shape, "FP32")
    tensor.set_data_from_numpy(ANSWERS["rows"])
    for model in ("onnx", "nothing", "onnx"):
        client.async_stream_infer(model, [tensor])
    (first, _), (_, error), (last, _) = (answers.get(timeout=60) for _ in range(3))
    client.stop_stream()
    assert "there is no model 'nothing'" in str(error), error
    for found in (first, last):
        np.testing.assert_allclose(found.as_numpy("y"), ANSWERS["onnx"], rtol=1e-5)


def named(address):  # HOST:PORT, or HOST:PORT/AUTHORITY for a router
    address, _, authority = address.partition("/")
    return address, [("grpc.default_authority", authority)] if authority else None


for given in sys.argv[2:-1]:
    address, options = named(given)
    rpc = tritonclient.grpc.InferenceServerClient(address, channel_args=options)
    check(tritonclient.grpc, rpc)
    check_stream(rpc)
assert rpc.get_model_metadata("onnx").outputs[0].name == "y"
assert {model.state for model in rpc.get_model_repository_index().models} == {"READY"}
rpc.unload_model("numpy")
assert not rpc.is_model_ready("numpy")
rpc.load_model("numpy")
print("all answers are right")
