"""Tensors as the Open Inference Protocol names them, to and from NumPy. Pure."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gangline.serve.errors import BadRequestError

Array = npt.NDArray[Any]

DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(np.float32),  # NumPy has no such type: widened on the way in, cut on the way out
    "BYTES": np.dtype(np.object_),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name not in ("BF16", "BYTES")}
_FLAT: Mapping[str, msgspec.json.Decoder[list[float]] | msgspec.json.Decoder[list[int]]] = {
    **{name: msgspec.json.Decoder(list[float]) for name in ("FP16", "FP32", "FP64", "BF16")},
    **{name: msgspec.json.Decoder(list[int]) for name in DTYPES if "INT" in name},
}
_LENGTH = struct.Struct("<I")
_MAX_DIMENSIONS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """What a model expects or answers: -1 stands for a length that may vary."""

    name: str
    datatype: str
    shape: tuple[int, ...]


def datatype_of(array: Array) -> str:
    """Name the type of an array; text is BYTES."""
    return _NAMES.get(array.dtype, "BYTES")


def as_tensor(value: object) -> Array:
    """Return what a model answered as an array that the protocol has a name for; raises TypeError for anything else."""
    array = np.asarray(value)
    if array.dtype in _NAMES or array.dtype.kind in "SU":
        return array
    if array.dtype.kind in "biuf":  # of another byte order, or wider than any that has a name
        native = array.astype(array.dtype.newbyteorder("="))
        return native if native.dtype in _NAMES else native.astype(np.float64)
    if array.dtype.kind != "O":
        raise TypeError(f"{array.dtype} is neither a number nor text")
    for item in array.flat:
        if not isinstance(item, str | bytes | bytearray):
            raise TypeError(f"{type(item).__name__} is neither a number nor text")
    return array


def dtype_of(datatype: str, where: str) -> np.dtype[Any]:
    """Return NumPy's type of a datatype."""
    try:
        return DTYPES[datatype]
    except KeyError:
        raise BadRequestError(f"{where}: unknown datatype {datatype!r}; known are {', '.join(DTYPES)}") from None


def checked_shape(shape: Sequence[int], where: str) -> tuple[int, ...]:
    """Return a shape that a sender gave if an array can have it."""
    if len(shape) > _MAX_DIMENSIONS or (shape and min(shape) < 0):
        raise BadRequestError(f"{where}: shape {list(shape)} is not possible")
    return tuple(shape)


def from_json_text(text: msgspec.Raw, datatype: str, shape: Sequence[int], where: str) -> Array:
    """Read elements from the JSON that was sent: one plain list in one go, anything else with care."""
    flat = _FLAT.get(datatype)
    if flat is not None:
        try:
            return shaped(np.array(flat.decode(text), DTYPES[datatype]), checked_shape(shape, where), where)
        except (msgspec.DecodeError, OverflowError, UnicodeDecodeError):
            pass  # nested, or wrong: said below in words that help
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"{where}: data cannot be read: {error}") from error
    return from_json(data, datatype, shape, where)


def from_json(data: object, datatype: str, shape: Sequence[int], where: str) -> Array:
    """Read elements that were sent as JSON, nested or as one list in row-major order."""
    dtype, shape = dtype_of(datatype, where), checked_shape(shape, where)
    try:
        array = _bytes_array(data) if datatype == "BYTES" else _number_array(data, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"{where}: data is not {datatype}: {error}") from error
    return shaped(array, shape, where)


def _number_array(data: object, dtype: np.dtype[Any]) -> Array:
    array = np.asarray(data)
    if dtype == np.uint64 and array.dtype.kind == "f":  # NumPy's guess for small numbers beside ones of 64 bits
        exact = np.asarray(data, np.object_)
        if all(type(item) is int for item in exact.ravel()):
            return exact.astype(dtype)
    # Whole numbers are read as signed ones; anything else would change its value.
    whole = array.dtype.kind in "iu" and dtype.kind in "iuf"
    if array.size and not whole and not np.can_cast(array.dtype, dtype, casting="same_kind"):
        raise ValueError(f"found {array.dtype.name}")
    if dtype.kind in "iu" and array.size and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ValueError("a number is out of range")
    return array.astype(dtype, copy=False)


def _bytes_array(data: object) -> Array:
    flat: list[bytes] = []
    rest = [data]
    while rest:
        item = rest.pop()
        if isinstance(item, list):
            rest.extend(reversed(item))
        elif isinstance(item, str):
            flat.append(item.encode())
        else:
            raise ValueError(f"found {type(item).__name__}, not text")
    array = np.empty(len(flat), dtype=np.object_)
    array[:] = flat
    return array


def shaped(array: Array, shape: tuple[int, ...], where: str) -> Array:
    """Give elements in row-major order their shape."""
    if array.size != math.prod(shape):
        raise BadRequestError(
            f"{where}: shape {list(shape)} has {math.prod(shape)} elements, but {array.size} were sent"
        )
    return array.reshape(shape)


def from_binary(raw: bytes | memoryview, datatype: str, shape: Sequence[int], where: str) -> Array:
    """Read elements that were sent as bytes, little-endian; the array is read-only where nothing was copied."""
    dtype, shape = dtype_of(datatype, where), checked_shape(shape, where)
    if datatype == "BYTES":
        return shaped(_read_strings(raw, where), shape, where)
    width = 2 if datatype == "BF16" else dtype.itemsize
    want = math.prod(shape) * width
    if len(raw) != want:
        raise BadRequestError(
            f"{where}: shape {list(shape)} of {datatype} takes {want} bytes, but {len(raw)} were sent"
        )
    if datatype == "BF16":
        wide = np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    return np.frombuffer(raw, dtype=dtype.newbyteorder("<")).reshape(shape)


def _read_strings(raw: bytes | memoryview, where: str) -> Array:
    found: list[bytes] = []
    at = 0
    while at < len(raw):
        end = at + _LENGTH.size
        length = _LENGTH.unpack_from(raw, at)[0] if end <= len(raw) else len(raw)
        if end + length > len(raw):
            raise BadRequestError(f"{where}: the last element is cut off")
        found.append(bytes(raw[end : end + length]))
        at = end + length
    array = np.empty(len(found), dtype=np.object_)
    array[:] = found
    return array


def to_json(array: Array) -> list[Any]:
    """Write the elements as one list in row-major order."""
    if array.dtype not in _NAMES:
        return [_as_bytes(item).decode("utf-8", "replace") for item in array.ravel()]
    found: list[Any] = array.ravel().tolist()
    return found


def to_binary(array: Array) -> bytes:
    """Write the elements as bytes, little-endian."""
    if datatype_of(array) == "BYTES":
        return b"".join(_LENGTH.pack(len(item)) + item for item in map(_as_bytes, array.ravel()))
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def _as_bytes(item: object) -> bytes:
    return bytes(item) if isinstance(item, bytes | bytearray | np.bytes_) else str(item).encode(errors="replace")


def check_against(inputs: Mapping[str, Array], specs: Sequence[TensorSpec]) -> None:
    """Refuse what a model with these inputs cannot take, in words that name the input."""
    if len(inputs) == len(specs) and all([_fits(inputs.get(spec.name), spec) for spec in specs]):  # noqa: C419  # hot
        return
    names = [spec.name for spec in specs]
    if unknown := [name for name in inputs if name not in names]:
        raise BadRequestError(f"there is no input {unknown[0]!r}; the model takes {', '.join(names)}")
    for spec in specs:
        array = inputs.get(spec.name)
        if array is None:
            raise BadRequestError(f"input {spec.name!r} is missing; the model takes {', '.join(names)}")
        if len(spec.shape) != array.ndim or any(map(_differ, spec.shape, array.shape)):
            raise BadRequestError(f"input {spec.name!r}: shape {list(array.shape)} does not fit {list(spec.shape)}")
        if DTYPES[spec.datatype] != array.dtype:
            raise BadRequestError(
                f"input {spec.name!r}: {datatype_of(array)} was sent, the model takes {spec.datatype}"
            )


def _fits(array: Array | None, spec: TensorSpec) -> bool:
    if array is None or array.dtype != DTYPES[spec.datatype] or array.ndim != len(spec.shape):
        return False
    return array.shape == spec.shape or not any(map(_differ, spec.shape, array.shape))


def _differ(want: int, have: int) -> bool:
    return want not in (-1, have)
