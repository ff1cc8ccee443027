"""Errors of the platform as statuses of gRPC, and back: a code for each HTTP status, and our own error as a detail."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import grpc
import msgspec

from gangline.wire.rpc.messages import message_from, pb, plain_from

DETAILS = "grpc-status-details-bin"
_CODE = grpc.StatusCode
CODES: Mapping[int, Any] = {
    HTTPStatus.BAD_REQUEST: _CODE.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: _CODE.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: _CODE.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: _CODE.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: _CODE.UNIMPLEMENTED,
    HTTPStatus.REQUEST_TIMEOUT: _CODE.DEADLINE_EXCEEDED,
    HTTPStatus.CONFLICT: _CODE.ABORTED,
    HTTPStatus.PRECONDITION_FAILED: _CODE.FAILED_PRECONDITION,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _CODE.OUT_OF_RANGE,
    HTTPStatus.UNPROCESSABLE_ENTITY: _CODE.FAILED_PRECONDITION,
    HTTPStatus.TOO_MANY_REQUESTS: _CODE.RESOURCE_EXHAUSTED,
    HTTPStatus.INTERNAL_SERVER_ERROR: _CODE.INTERNAL,
    HTTPStatus.BAD_GATEWAY: _CODE.FAILED_PRECONDITION,
    HTTPStatus.SERVICE_UNAVAILABLE: _CODE.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: _CODE.DEADLINE_EXCEEDED,
}
"""The one table. UNAVAILABLE alone invites a client to try again, as 503 does."""


def code_of(status: int) -> Any:
    """Return the code of an HTTP status; of one that is not listed, that of its class."""
    code = CODES.get(status)
    return code or (_CODE.INTERNAL if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _CODE.FAILED_PRECONDITION)


def details_of(status: int, body: bytes) -> tuple[str, bytes]:
    """Return the message of a refusal and its trailing metadata, from the body that REST answers with."""
    try:
        error = msgspec.json.decode(body)["error"]
        detail = message_from(pb.Error, error)
    except (msgspec.DecodeError, KeyError, TypeError):
        text = HTTPStatus(status).phrase
        detail = pb.Error(type="GanglineError", message=text)
    whole = pb.Status(code=code_of(status).value[0], message=detail.message)
    whole.details.add().Pack(detail)
    return detail.message, whole.SerializeToString()


def body_of(details: bytes) -> bytes | None:
    """Return the body that REST would have answered with; None if the refusal is none of ours."""
    whole = pb.Status.FromString(details)
    detail = pb.Error()
    if not (whole.details and whole.details[0].Unpack(detail)):
        return None
    return msgspec.json.encode({"error": plain_from(detail)})
