"""Errors on the wire."""

import inspect

import pytest

from gangline import errors
from gangline.api.errors import STATUSES, status_of
from gangline.errors import EngineError, GanglineError, InvalidInputError, NotFoundError, StaleVersionError
from gangline.wire import error_to_body

CLASSES = [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, GanglineError)]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_has_a_status_of_its_own_kind(cls: type[GanglineError]) -> None:
    nearest = next(known for known in cls.__mro__ if known in STATUSES)
    assert nearest is GanglineError if cls is GanglineError else nearest is not GanglineError


@pytest.mark.parametrize(
    ("error", "want_status", "want_facts"),
    [
        pytest.param(
            NotFoundError("job", "mnits", hint="did you mean 'mnist'?"),
            404,
            {"kind": "job", "name": "mnits", "hint": "did you mean 'mnist'?"},
            id="not found",
        ),
        pytest.param(
            StaleVersionError("job", "j1", expected=1, found=2),
            409,
            {"kind": "job", "name": "j1", "expected": 1, "found": 2},
            id="a conflict below Conflict",
        ),
        pytest.param(
            InvalidInputError("too small", field="replicas", line=3),
            400,
            {
                "problem": "too small",
                "field": "replicas",
                "line": 3,
                "expected": None,
                "suggestion": None,
                "file": None,
            },
            id="bad input",
        ),
    ],
)
def test_an_error_carries_its_class_and_facts(
    error: GanglineError, want_status: int, want_facts: dict[str, object]
) -> None:
    detail = error_to_body(error).error
    assert status_of(error) == want_status
    assert (detail.type, detail.message, detail.facts) == (type(error).__name__, str(error), want_facts)


class PrivateError(EngineError):
    """An error of one engine, with attributes that no client could read."""

    def __init__(self) -> None:
        self.refusal = object()
        super().__init__("the cluster will not have it")


def test_an_error_that_clients_do_not_know_is_told_as_the_nearest_that_they_do() -> None:
    error = PrivateError()
    assert status_of(error) == 502
    detail = error_to_body(error).error
    assert (detail.type, detail.message, detail.facts) == ("EngineError", "the cluster will not have it", {})
