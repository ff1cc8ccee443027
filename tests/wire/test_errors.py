"""Errors that come over the wire are the errors that were raised."""

import msgspec
import pytest

from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.errors import (
    ConflictError,
    EngineError,
    GanglineError,
    InvalidInputError,
    InvalidTransitionError,
    NotFoundError,
    PermissionDeniedError,
    StaleVersionError,
    StorageError,
    UnreachableError,
    WaitTimeoutError,
)
from gangline.model import JobPage
from gangline.sdk.exchange import Exchange
from gangline.sdk.transports.interface import Request
from gangline.wire import error_from_body, error_to_body, plain


class Odd:
    """A transport to something that answers, but not as a service does; it is its own answer."""

    address, status = "nowhere", 200

    def send(self, request: Request) -> "Odd":
        return self

    def read(self) -> bytes:
        return b'{"jobs": 3}'


@pytest.mark.parametrize(
    "error",
    [
        GanglineError("a defect"),
        InvalidInputError("wrong", field="roles", expected="one", suggestion="role", file="job.yaml", line=3),
        NotFoundError("job", "mnist", hint="look again"),
        ConflictError("taken"),
        StaleVersionError("job", "mnist", expected=1, found=None),
        InvalidTransitionError("mnist", "QUEUED", "ResumeRequested", hint="halt it first"),
        PermissionDeniedError("no"),
        UnreachableError("gone"),
        WaitTimeoutError("late"),
        EngineError("broken"),
        StorageError("full"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_wire(error: GanglineError) -> None:
    found = error_from_body(msgspec.json.encode(plain(error_to_body(error))), 400)
    assert type(found) is type(error)
    assert (str(found), vars(found)) == (str(error), vars(error))


def test_an_error_that_only_an_engine_knows_arrives_as_the_nearest_one_that_clients_know() -> None:
    refusal = Refusal(reason="InputsMissing", message="the input data/mnist does not exist", permanent=True)
    found = error_from_body(msgspec.json.encode(plain(error_to_body(RefusedError(refusal)))), 502)
    assert type(found) is EngineError
    assert str(found) == "InputsMissing: the input data/mnist does not exist"


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b"{}", b'{"error": "text"}'])
def test_an_answer_of_somebody_else_is_no_service(body: bytes) -> None:
    with pytest.raises(UnreachableError, match="not a Gangline service"):
        raise error_from_body(body, 502)


def test_an_error_of_a_newer_service_is_at_least_an_error() -> None:
    body = b'{"error": {"type": "QuotaExceededError", "message": "too much", "facts": {}}}'
    assert type(error_from_body(body, 400)) is GanglineError


def test_an_answer_that_is_not_understood_is_no_answer() -> None:
    with pytest.raises(UnreachableError, match="not understood"):
        Exchange(Odd()).ask(JobPage, "GET", ("tenants", "default", "jobs"))
