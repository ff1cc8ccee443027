"""Binary refusals say what their JSON form says. Real ones: tests/integration/kubernetes/test_compact_answers.py."""

import pytest

from gangline.kube.compact import status_from
from gangline.kube.errors import InvalidError, error_from_answer


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def envelope(content: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, "v1") + field(2, "Status")) + field(2, content)


CAUSE = field(1, "FieldValueRequired") + field(2, "Required value") + field(3, "spec.containers[0].image")
DETAILS = field(1, "trainer") + field(4, CAUSE) + field(4, field(2, "must be positive")) + field(5, 3)
INVALID = field(1, b"") + field(2, "Failure") + field(3, "bad") + field(4, "Invalid") + field(5, DETAILS)


def test_a_refusal_reads_as_its_json_form() -> None:
    error = error_from_answer(422, envelope(INVALID + field(6, 422)))
    assert isinstance(error, InvalidError)
    assert (error.message, error.reason, error.status) == ("bad", "Invalid", 422)
    assert error.fields == ("spec.containers[0].image",)
    assert error.retry_after_seconds == 3


def test_fields_that_are_not_known_are_passed_over() -> None:
    unknown = bytes([9 << 3 | 5]) + b"four" + bytes([10 << 3 | 1]) + b"eight..." + field(11, 300)
    status = status_from(envelope(unknown + field(3, "bad")))
    assert status is not None
    assert status["message"] == "bad"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k8s\x00\x08", id="cut in a number"),
        pytest.param(b"k8s\x00\x0b", id="a form that is no longer used"),
    ],
)
def test_anything_else_is_left_to_others(body: bytes) -> None:
    assert status_from(body) is None
