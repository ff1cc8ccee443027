"""Tensors on the wire are what was sent, and what cannot be one is refused."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gangline.serve import tensors
from gangline.serve.errors import BadRequestError
from gangline.serve.tensors import DTYPES, TensorSpec, as_tensor, check_against, datatype_of, to_json

EXACT = [name for name in DTYPES if name not in ("BF16", "BYTES")]


@st.composite
def some_array(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    name = draw(st.sampled_from(EXACT))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    return name, draw(arrays.arrays(np.dtype(DTYPES[name]), shape))


@given(some_array())
def test_binary_elements_arrive_as_they_were(case: tuple[str, np.ndarray[Any, Any]]) -> None:
    name, array = case
    got = tensors.from_binary(tensors.to_binary(array), name, array.shape, "x")
    np.testing.assert_array_equal(got, array)
    assert got.dtype == array.dtype


@given(some_array())
def test_json_elements_arrive_as_they_were(case: tuple[str, np.ndarray[Any, Any]]) -> None:
    name, array = case
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return  # JSON has no word for them
    got = tensors.from_json(json.loads(json.dumps(tensors.to_json(array))), name, array.shape, "x")
    np.testing.assert_array_equal(got, array)
    assert got.dtype == array.dtype


def test_a_small_number_beside_one_of_64_bits_stays_whole() -> None:
    data = [[0], [1 << 63]]
    got = tensors.from_json(data, "UINT64", [2, 1], "x")
    assert got.dtype == np.uint64
    assert got.tolist() == data


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_strings_of_any_bytes_arrive_as_they_were(items: list[bytes]) -> None:
    array = np.empty(len(items), dtype=np.object_)
    array[:] = items
    got = tensors.from_binary(tensors.to_binary(array), "BYTES", array.shape, "x")
    assert list(got) == items


def test_half_width_floats_are_widened() -> None:
    raw = (np.array([1.5, -2.0, 0.0], np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    np.testing.assert_array_equal(tensors.from_binary(raw, "BF16", [3], "x"), np.array([1.5, -2, 0], np.float32))


@pytest.mark.parametrize(
    ("data", "datatype", "shape", "want"),
    [
        pytest.param([1, 2, 3], "FP32", [2, 2], r"shape \[2, 2\] has 4 elements, but 3 were sent", id="too few"),
        pytest.param([1, "a"], "FP32", [2], "data is not FP32", id="text among numbers"),
        pytest.param([1.5], "INT32", [1], "data is not INT32: found float64", id="a fraction as a whole number"),
        pytest.param([300], "UINT8", [1], "a number is out of range", id="out of range"),
        pytest.param([-1], "UINT64", [1], "a number is out of range", id="below zero"),
        pytest.param([None], "FP64", [1], "data is not FP64", id="nothing"),
        pytest.param([[1, 2], [3]], "FP32", [2, 2], "data is not FP32", id="ragged"),
        pytest.param([1], "BYTES", [1], "found int, not text", id="a number as text"),
        pytest.param([1], "FP128", [1], "unknown datatype 'FP128'; known are BOOL,", id="unknown type"),
        pytest.param([1], "FP32", [-1], r"shape \[-1\] is not possible", id="negative length"),
        pytest.param([1], "BOOL", [1], "data is not BOOL", id="a number as a truth value"),
        pytest.param({"a": 1}, "FP32", [1], "data is not FP32", id="an object"),
    ],
)
def test_json_that_is_no_such_tensor_is_refused(data: Any, datatype: str, shape: list[int], want: str) -> None:
    with pytest.raises(BadRequestError, match=want):
        tensors.from_json(data, datatype, shape, "input 'x'")


@pytest.mark.parametrize(
    ("raw", "datatype", "shape", "want"),
    [
        pytest.param(b"1234567", "FP32", [2], "takes 8 bytes, but 7 were sent", id="cut off"),
        pytest.param(b"\x05\x00\x00\x00ab", "BYTES", [1], "the last element is cut off", id="text cut off"),
        pytest.param(b"\x05\x00", "BYTES", [1], "the last element is cut off", id="length cut off"),
        pytest.param(b"", "BYTES", [1], "has 1 elements, but 0 were sent", id="nothing"),
    ],
)
def test_bytes_that_are_no_such_tensor_are_refused(raw: bytes, datatype: str, shape: list[int], want: str) -> None:
    with pytest.raises(BadRequestError, match=want):
        tensors.from_binary(raw, datatype, shape, "input 'x'")


SPECS = (
    TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),
    TensorSpec(name="n", datatype="INT64", shape=(1,)),
)


@pytest.mark.parametrize(
    ("inputs", "want"),
    [
        pytest.param({"x": np.zeros((3, 2), np.float32)}, "input 'n' is missing; the model takes x, n", id="missing"),
        pytest.param(
            {"x": np.zeros((3, 2), np.float32), "n": np.zeros(1, np.int64), "y": np.zeros(1)},
            "there is no input 'y'",
            id="unknown",
        ),
        pytest.param(
            {"x": np.zeros((3, 3), np.float32), "n": np.zeros(1, np.int64)},
            r"input 'x': shape \[3, 3\] does not fit \[-1, 2\]",
            id="shape",
        ),
        pytest.param(
            {"x": np.zeros((3, 2), np.float64), "n": np.zeros(1, np.int64)},
            "input 'x': FP64 was sent, the model takes FP32",
            id="type",
        ),
    ],
)
def test_what_does_not_fit_a_model_is_refused_by_name(inputs: dict[str, Any], want: str) -> None:
    with pytest.raises(BadRequestError, match=want):
        check_against(inputs, SPECS)


def test_what_fits_passes() -> None:
    check_against({"x": np.zeros((3, 2), np.float32), "n": np.zeros(1, np.int64)}, SPECS)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "NoneType"),
        ([{"a": 1}, "text"], "dict"),
        (["text", None], "NoneType"),
        (np.array([1 + 2j]), "complex128"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), r"datetime64\[D\]"),
    ],
)
def test_what_a_model_answers_must_be_numbers_or_text(value: object, said: str) -> None:
    with pytest.raises(TypeError, match=f"{said} is neither a number nor text"):
        as_tensor(value)


@pytest.mark.parametrize("dtype", [">f4", ">i8", np.longdouble, "f2", "?"])
def test_numbers_of_any_width_and_order_are_answered_as_numbers(dtype: object) -> None:
    array = as_tensor(np.ones(2, dtype=dtype))  # type: ignore[call-overload]
    assert datatype_of(array) != "BYTES"
    assert to_json(array) == [1, 1]
