"""Refusals, as the API server words them."""

from collections.abc import Sequence
from typing import Any


class RefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str, causes: Sequence[tuple[str, str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes

    def body(self) -> dict[str, Any]:
        """The ``Status`` that says so."""
        causes = [{"reason": reason, "message": message, "field": field} for reason, message, field in self.causes]
        details = {"details": {"causes": causes}} if causes else {}
        return {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
            **details,
        }


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)


def not_found(plural: str, name: str) -> RefusedError:
    return RefusedError(404, "NotFound", f'{plural} "{name}" not found')


def conflict(plural: str, name: str, why: str) -> RefusedError:
    return RefusedError(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def expired() -> RefusedError:
    return RefusedError(410, "Expired", "The resourceVersion for the provided list or watch is too old.")


def invalid(kind: str, name: str, causes: Sequence[tuple[str, str, str]]) -> RefusedError:
    text = ", ".join(f"{field}: {message}" for _, message, field in causes)
    return RefusedError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', causes)
