"""Requests and answers of the Open Inference Protocol over HTTP, with Triton's binary tensors. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gangline.serve import tensors
from gangline.serve.errors import BadRequestError
from gangline.serve.tensors import Array

HEADER_LENGTH = "Inference-Header-Content-Length"
Parameters = dict[str, Any]
_NO_DATA = msgspec.Raw(b"")


class RequestedOutput(msgspec.Struct):
    """An output that a request names."""

    name: str
    parameters: Parameters | None = None


class InputTensor(msgspec.Struct):
    """An input as it is sent."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | None = None
    data: msgspec.Raw = _NO_DATA


class InferRequest(msgspec.Struct):
    """What is sent."""

    inputs: list[InputTensor]
    id: str = ""
    parameters: Parameters | None = None
    outputs: list[RequestedOutput] = msgspec.field(default_factory=list)


_DECODER = msgspec.json.Decoder(InferRequest)
_ENCODER = msgspec.json.Encoder()


def read_request(body: bytes, header_length: str | None) -> tuple[InferRequest, dict[str, Array]]:
    """Read a body: JSON, and behind it the bytes of the tensors that say so."""
    text: bytes | memoryview = body
    rest = memoryview(b"")
    if header_length is not None:
        length, whole = _header_length(header_length, len(body)), memoryview(body)
        text, rest = whole[:length], whole[length:]
    try:
        request = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body is not an inference request: {error}") from error
    inputs: dict[str, Array] = {}
    for tensor in request.inputs:
        if tensor.name in inputs:
            raise BadRequestError(f"input {tensor.name!r} is sent twice")
        inputs[tensor.name], rest = _read_tensor(tensor, rest)
    if rest:
        raise BadRequestError(f"{len(rest)} bytes of the body belong to no input")
    return request, inputs


def _header_length(text: str, size: int) -> int:
    if not text.isdecimal() or int(text) > size:
        raise BadRequestError(f"{HEADER_LENGTH} is {text!r}, the body has {size} bytes")
    return int(text)


def _read_tensor(tensor: InputTensor, rest: memoryview) -> tuple[Array, memoryview]:
    where = f"input {tensor.name!r}"
    size = tensor.parameters.get("binary_data_size") if tensor.parameters else None
    if size is None:
        if tensor.data is _NO_DATA:
            raise BadRequestError(f"{where} has no data")
        return tensors.from_json_text(tensor.data, tensor.datatype, tensor.shape, where), rest
    if not isinstance(size, int) or not 0 <= size <= len(rest):
        raise BadRequestError(f"{where}: binary_data_size is {size}, but {len(rest)} bytes are left in the body")
    return tensors.from_binary(rest[:size], tensor.datatype, tensor.shape, where), rest[size:]


def write_answer(
    request: InferRequest, name: str, version: str, outputs: Mapping[str, Array]
) -> tuple[bytes, int | None]:
    """Write a body; the number says how much of it is JSON if bytes follow."""
    wanted = request.outputs or [RequestedOutput(name=name) for name in outputs]
    binary_by_default = bool(request.parameters and request.parameters.get("binary_data_output"))
    described: list[dict[str, Any]] = []
    raw: list[bytes] = []
    for output in wanted:
        array = _output(outputs, output.name)
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": tensors.datatype_of(array),
            "shape": list(array.shape),
        }
        if output.parameters.get("binary_data", binary_by_default) if output.parameters else binary_by_default:
            raw.append(tensors.to_binary(array))
            tensor["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            tensor["data"] = tensors.to_json(array)
        described.append(tensor)
    answer: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": described}
    if request.id:
        answer["id"] = request.id
    head = _ENCODER.encode(answer)
    return (b"".join([head, *raw]), len(head)) if raw else (head, None)


def _output(outputs: Mapping[str, Array], name: str) -> Array:
    if name not in outputs:
        raise BadRequestError(f"there is no output {name!r}; the model answers {', '.join(outputs)}")
    return outputs[name]


def tensor_metadata(specs: Sequence[tensors.TensorSpec]) -> list[dict[str, Any]]:
    """Describe inputs or outputs."""
    return [{"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)} for spec in specs]
