"""A server's refusals as the narrowest error."""

import json

import pytest

from gangline import errors, kube
from gangline.kube.errors import error_from_answer


@pytest.mark.parametrize(
    ("status", "reason", "want"),
    [
        pytest.param(400, "BadRequest", kube.BadRequestError, id="bad request"),
        pytest.param(401, "Unauthorized", kube.UnauthorizedError, id="unauthorized"),
        pytest.param(403, "Forbidden", kube.ForbiddenError, id="forbidden"),
        pytest.param(404, "NotFound", kube.NotFoundError, id="not found"),
        pytest.param(409, "Conflict", kube.ConflictError, id="conflict"),
        pytest.param(409, "AlreadyExists", kube.AlreadyExistsError, id="already exists"),
        pytest.param(410, "Expired", kube.GoneError, id="expired"),
        pytest.param(410, "Gone", kube.GoneError, id="gone"),
        pytest.param(422, "Invalid", kube.InvalidError, id="invalid"),
        pytest.param(429, "TooManyRequests", kube.ThrottledError, id="throttled"),
        pytest.param(500, "InternalError", kube.ServerError, id="internal"),
        pytest.param(503, "", kube.ServerError, id="unavailable"),
        pytest.param(418, "", kube.ApiError, id="anything else"),
    ],
)
def test_status_becomes_the_narrowest_error(status: int, reason: str, want: type[kube.ApiError]) -> None:
    body = json.dumps({"kind": "Status", "message": "pods is in the way", "reason": reason, "code": status}).encode()
    error = error_from_answer(status, body)
    assert type(error) is want
    assert (error.status, error.reason, error.message) == (status, reason, "pods is in the way")
    assert str(error) == "pods is in the way"


def test_invalid_names_the_fields() -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"},
        {"reason": "FieldValueInvalid", "message": "must be positive"},
    ]
    body = json.dumps({"message": "bad", "reason": "Invalid", "details": {"causes": causes}}).encode()
    error = error_from_answer(422, body)
    assert isinstance(error, kube.InvalidError)
    assert error.fields == ("spec.containers[0].image",)
    assert error.causes[1] == kube.Cause("FieldValueInvalid", "must be positive", "")


def test_a_watch_error_carries_its_own_status() -> None:
    error = error_from_answer(0, b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}')
    assert isinstance(error, kube.GoneError)
    assert error.status == 410


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b"[1]", b"\xff\xfe"])
def test_a_page_that_is_no_status_is_still_an_error(body: bytes) -> None:
    error = error_from_answer(502, body)
    assert type(error) is kube.ServerError
    assert str(error)


def test_the_platform_recognises_what_it_maps() -> None:
    assert issubclass(kube.ForbiddenError, errors.PermissionDeniedError)
    assert issubclass(kube.UnreachableError, errors.UnreachableError)
    assert issubclass(kube.ConflictError, errors.ConflictError)
    assert issubclass(kube.KubeError, errors.GanglineError)
