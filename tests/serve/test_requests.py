"""Bodies of requests and answers in each protocol."""

import json
from typing import Any

import numpy as np
import pytest

from gangline.serve import oip, tf_serving
from gangline.serve.errors import BadRequestError
from gangline.serve.tensors import TensorSpec

X = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def tensor(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [1, 2], "datatype": "FP32", **fields}


def test_tensors_behind_the_json_are_read_in_order() -> None:
    head = body(
        inputs=[
            tensor(name="a", parameters={"binary_data_size": 8}),
            tensor(name="b", data=[5, 6]),
            tensor(name="c", parameters={"binary_data_size": 8}),
        ]
    )
    raw = np.array([1, 2], np.float32).tobytes() + np.array([3, 4], np.float32).tobytes()
    _, inputs = oip.read_request(head + raw, str(len(head)))
    assert {name: array.tolist() for name, array in inputs.items()} == {
        "a": [[1.0, 2.0]],
        "b": [[5.0, 6.0]],
        "c": [[3.0, 4.0]],
    }


@pytest.mark.parametrize(
    ("sent", "length", "want"),
    [
        pytest.param(b"{", None, "not an inference request", id="cut JSON"),
        pytest.param(b"\xff\xfe", None, "not an inference request", id="no text"),
        pytest.param(b"[]", None, "not an inference request", id="a list"),
        pytest.param(body(inputs=[tensor()]), None, "input 'x' has no data", id="no data"),
        pytest.param(body(inputs=[tensor(data=[1, 2])] * 2), None, "input 'x' is sent twice", id="twice"),
        pytest.param(b"{}", "7", "Inference-Header-Content-Length is '7', the body has 2 bytes", id="length too large"),
        pytest.param(b"{}", "-1", "Inference-Header-Content-Length is '-1'", id="length negative"),
        pytest.param(
            body(inputs=[tensor(parameters={"binary_data_size": 9})]), None, "but 0 bytes are left", id="cut bytes"
        ),
        pytest.param(
            body(inputs=[tensor(parameters={"binary_data_size": "8"})]),
            None,
            "binary_data_size is 8",
            id="size as text",
        ),
    ],
)
def test_a_body_that_is_no_request_is_refused(sent: bytes, length: str | None, want: str) -> None:
    with pytest.raises(BadRequestError, match=want):
        oip.read_request(sent, length)


def test_bytes_that_belong_to_nothing_are_refused() -> None:
    head = body(inputs=[tensor(data=[1, 2])])
    with pytest.raises(BadRequestError, match="3 bytes of the body belong to no input"):
        oip.read_request(head + b"abc", str(len(head)))


def test_an_answer_has_what_was_asked_for_as_it_was_asked_for() -> None:
    request, _ = oip.read_request(
        body(
            inputs=[],
            id="7",
            outputs=[{"name": "b", "parameters": {"binary_data": True}}, {"name": "a"}],
        ),
        None,
    )
    outputs = {"a": np.array([1, 2]), "b": np.array([0.5], np.float32), "c": np.array([0])}
    sent, head = oip.write_answer(request, "m", "3", outputs)
    assert head is not None
    assert json.loads(sent[:head]) == {
        "model_name": "m",
        "model_version": "3",
        "id": "7",
        "outputs": [
            {"name": "b", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}},
            {"name": "a", "datatype": "INT64", "shape": [2], "data": [1, 2]},
        ],
    }
    assert sent[head:] == np.array([0.5], np.float32).tobytes()


def test_an_unknown_output_is_refused() -> None:
    request, _ = oip.read_request(body(inputs=[], outputs=[{"name": "z"}]), None)
    with pytest.raises(BadRequestError, match="there is no output 'z'; the model answers a"):
        oip.write_answer(request, "m", "1", {"a": np.zeros(1)})


@pytest.mark.parametrize(
    ("sent", "want_rows", "want"),
    [
        pytest.param({"instances": [[1, 2], [3, 4]]}, True, {"x": [[1, 2], [3, 4]]}, id="rows"),
        pytest.param({"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}, True, {"x": [[1, 2], [3, 4]]}, id="named rows"),
        pytest.param({"inputs": [[1, 2]]}, False, {"x": [[1, 2]]}, id="a column"),
        pytest.param({"inputs": {"x": [[1, 2]]}}, False, {"x": [[1, 2]]}, id="named columns"),
    ],
)
def test_rows_and_columns_are_read(sent: dict[str, Any], want_rows: bool, want: dict[str, Any]) -> None:
    rows, inputs = tf_serving.read_predict(json.dumps(sent).encode(), X)
    assert rows is want_rows
    assert {name: array.tolist() for name, array in inputs.items()} == want
    assert inputs["x"].dtype == np.float32


def test_text_in_base64_is_read() -> None:
    specs = (TensorSpec(name="t", datatype="BYTES", shape=(-1,)),)
    _, inputs = tf_serving.read_predict(body(instances=[{"b64": "aGk="}, {"b64": "eW91"}]), specs)
    assert inputs["t"].tolist() == [b"hi", b"you"]


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param({}, "either instances .rows. or inputs", id="nothing"),
        pytest.param({"instances": [[1, 2]], "inputs": [[1, 2]]}, "either instances", id="both"),
        pytest.param({"instances": []}, "instances is empty", id="no rows"),
        pytest.param({"instances": [[1, 2], [3]]}, "data is not FP32", id="ragged"),
        pytest.param(
            {"instances": [{"x": [1]}, {"y": [1]}]}, r"instances\[1\] does not have the same", id="names differ"
        ),
        pytest.param({"instances": {"x": 1}}, "the body cannot be read", id="no list"),
        pytest.param({"instances": [[{"b64": "%"}]]}, "must be {'b64'", id="bad base64"),
    ],
)
def test_a_request_for_predictions_that_is_none_is_refused(sent: dict[str, Any], want: str) -> None:
    with pytest.raises(BadRequestError, match=want):
        tf_serving.read_predict(json.dumps(sent).encode(), X)


def test_predictions_are_written_by_row_or_by_column() -> None:
    two = {"a": np.array([[1.5], [2.5]]), "b": np.array([1, 2])}
    assert json.loads(tf_serving.write_predictions(two, rows=True)) == {
        "predictions": [{"a": [1.5], "b": 1}, {"a": [2.5], "b": 2}]
    }
    assert json.loads(tf_serving.write_predictions(two, rows=False)) == {"outputs": {"a": [[1.5], [2.5]], "b": [1, 2]}}
    one = {"a": np.array([1, 2])}
    assert json.loads(tf_serving.write_predictions(one, rows=True)) == {"predictions": [1, 2]}
    assert json.loads(tf_serving.write_predictions(one, rows=False)) == {"outputs": [1, 2]}


def test_examples_are_classified_and_regressed() -> None:
    inputs = tf_serving.read_examples(body(context={"b": 1.0}, examples=[{"a": 2.0}, {"a": 3.0}]), ())
    assert {name: array.tolist() for name, array in inputs.items()} == {"b": [1.0, 1.0], "a": [2.0, 3.0]}
    assert json.loads(tf_serving.write_classes({"s": np.array([[0.25, 0.75]])})) == {
        "results": [[["0", 0.25], ["1", 0.75]]]
    }
    assert json.loads(tf_serving.write_regressions({"s": np.array([[0.25], [0.5]])})) == {"results": [0.25, 0.5]}
