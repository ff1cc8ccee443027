"""Requests and answers as TensorFlow Serving's REST interface and KServe's first protocol have them. Pure."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from gangline.serve import tensors
from gangline.serve.errors import BadRequestError
from gangline.serve.tensors import Array, TensorSpec

_Body = TypeVar("_Body", bound=msgspec.Struct)
_ENCODER = msgspec.json.Encoder()


class PredictRequest(msgspec.Struct):
    """What is sent: rows (``instances``) or columns (``inputs``)."""

    instances: list[Any] | None = None
    inputs: Any = None
    signature_name: str = ""


class ExamplesRequest(msgspec.Struct):
    """What ``classify`` and ``regress`` are sent."""

    examples: list[dict[str, Any]]
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    signature_name: str = ""


def read_predict(body: bytes, specs: Sequence[TensorSpec]) -> tuple[bool, dict[str, Array]]:
    """Read a request for predictions; says first whether it came as rows."""
    request = _decoded(body, PredictRequest)
    if (request.instances is None) == (request.inputs is None):
        raise BadRequestError("the body needs either instances (rows) or inputs (columns)")
    if request.instances is not None:
        return True, _rows(request.instances, specs)
    columns = request.inputs
    if not isinstance(columns, dict):
        columns = {_only(specs): columns}
    return False, {name: _array(name, value, specs) for name, value in columns.items()}


def read_examples(body: bytes, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Read a request to classify or regress."""
    request = _decoded(body, ExamplesRequest)
    if not request.examples:
        raise BadRequestError("examples is empty")
    return _rows([{**request.context, **example} for example in request.examples], specs)


def _decoded(body: bytes, want: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(body, type=want)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body cannot be read: {error}") from error


def _rows(instances: list[Any], specs: Sequence[TensorSpec]) -> dict[str, Array]:
    if not instances:
        raise BadRequestError("instances is empty")
    if not _is_named(instances[0]):
        return {_only(specs): _array(_only(specs), instances, specs)}
    names = list(instances[0])
    for index, row in enumerate(instances):
        if not _is_named(row) or list(row) != names:
            raise BadRequestError(f"instances[{index}] does not have the same inputs as the first: {', '.join(names)}")
    return {name: _array(name, [row[name] for row in instances], specs) for name in names}


def _is_named(row: object) -> bool:
    return isinstance(row, dict) and set(row) != {"b64"}


def _only(specs: Sequence[TensorSpec]) -> str:
    if len(specs) > 1:
        raise BadRequestError(f"the model has several inputs, name them: {', '.join(spec.name for spec in specs)}")
    return specs[0].name if specs else "input"


def _array(name: str, value: object, specs: Sequence[TensorSpec]) -> Array:
    datatype = next((spec.datatype for spec in specs if spec.name == name), None)
    where = f"input {name!r}"
    plain = _plain(value, where)
    if datatype is None:
        datatype = _guess(plain, where)
    return tensors.from_json(plain, datatype, _shape(plain, where), where)


def _plain(value: object, where: str) -> object:
    """Text in base64 becomes text."""
    if isinstance(value, list):
        return [_plain(item, where) for item in value] if _has_objects(value) else value
    if isinstance(value, dict):
        try:
            return base64.b64decode(value["b64"], validate=True).decode("latin-1")
        except (KeyError, TypeError, binascii.Error) as error:
            raise BadRequestError(f"{where}: an object must be {{'b64': ...}} of base64") from error
    return value


def _has_objects(value: list[Any]) -> bool:
    return any(isinstance(item, dict | list) for item in value[:1])


def _shape(value: object, where: str) -> list[int]:
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        if any(isinstance(item, list) != isinstance(value[0], list) for item in value):
            raise BadRequestError(f"{where}: rows differ in length")
        value = value[0]
    return shape


def _guess(value: object, where: str) -> str:
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise BadRequestError(f"{where}: rows differ in length") from error
    return {"b": "BOOL", "i": "INT64", "f": "FP32"}.get(found.dtype.kind, "BYTES")


def write_predictions(outputs: Mapping[str, Array], *, rows: bool) -> bytes:
    """Write predictions as they were asked for: by row or by column; a single output needs no name."""
    plain = {name: _nested(array) for name, array in outputs.items()}
    single = next(iter(plain.values())) if len(plain) == 1 else None
    if not rows:
        return _ENCODER.encode({"outputs": plain if single is None else single})
    if single is not None:
        return _ENCODER.encode({"predictions": single})
    columns = plain.values()
    if len({len(column) if isinstance(column, list) else -1 for column in columns}) != 1:
        raise BadRequestError("the outputs have no common rows; ask with inputs instead of instances")
    return _ENCODER.encode({"predictions": [dict(zip(plain, row, strict=True)) for row in zip(*columns, strict=True)]})


def write_classes(outputs: Mapping[str, Array]) -> bytes:
    """Write for each example its classes with their scores."""
    scores = next((array for array in outputs.values() if array.ndim == 2), None)
    if scores is None:
        raise BadRequestError("the model does not classify: it has no output of one score per class")
    return _ENCODER.encode(
        {"results": [[[str(index), score] for index, score in enumerate(row)] for row in scores.tolist()]}
    )


def write_regressions(outputs: Mapping[str, Array]) -> bytes:
    """Write for each example one number."""
    first = next(iter(outputs.values()))
    if first.size != len(first):
        raise BadRequestError("the model does not regress: its output has several numbers per example")
    return _ENCODER.encode({"results": first.ravel().tolist()})


def _nested(array: Array) -> Any:
    if tensors.datatype_of(array) == "BYTES":
        flat = np.empty(array.size, dtype=np.object_)
        flat[:] = tensors.to_json(array)
        return flat.reshape(array.shape).tolist()
    return array.tolist()
