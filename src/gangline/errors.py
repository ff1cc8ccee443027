"""Every error Gangline raises on purpose, in one tree.

The edges map these classes to exit codes, HTTP statuses and messages in one table each; nothing else
inspects error text.

    GanglineError
      InvalidInputError         the request or the file is wrong; names the field and the fix
      NotFoundError             no such job, queue, node or log
      ConflictError             the thing exists already, or its state forbids the request
        StaleVersionError       somebody else changed the record first; read again and retry
        PreconditionFailedError the record is not the version that the caller named (If-Match)
        KeyReusedError          the Idempotency-Key was used for another request
        RequestUnderWayError    the request with this Idempotency-Key is being handled; ask again in a moment
        InvalidTransitionError  this phase has no answer to this event
      PermissionDeniedError     the caller may not do this
        UnauthenticatedError    the caller has not proved who they are
      TooManyRequestsError      the caller asks for more than their share; ask again later
      UnreachableError          the service or the cluster does not answer
      WaitTimeoutError          the caller's own time limit ran out; nothing was changed
      EngineError               an engine could not do what it was told
      StorageError              a store could not keep or return a record
        StorageFullError        there is no room left to keep anything; reading goes on
        RecordTooLargeError     one record has grown too large for its store; the others are as they were
        UnreadableRecordError   one record is damaged, or breaks the rules of this version; the others are as they were
"""

import copyreg


class GanglineError(Exception):
    """The root of everything Gangline raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # By itself Python would call ``__init__`` with the sentence alone, which a pool of processes waits for in vain.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # documented by PEP 307


class InvalidInputError(GanglineError):
    """The request or the file is wrong; the message names the field, what was expected and the fix."""

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        expected: str | None = None,
        suggestion: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        self.problem = problem
        self.field = field
        self.expected = expected
        self.suggestion = suggestion
        self.file = file
        self.line = line
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        parts = [part for part in (where, self.field, self.problem) if part]
        sentence = ": ".join(parts)
        if self.expected:
            sentence += f"; expected {self.expected}"
        if self.suggestion:
            sentence += f"; did you mean '{self.suggestion}'?"
        return sentence


class NotFoundError(GanglineError):
    """There is no such thing; ``kind`` and ``name`` say which."""

    def __init__(self, kind: str, name: str, *, hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.hint = hint
        super().__init__(f"no {kind} named '{name}'" + (f"; {hint}" if hint else ""))


class ConflictError(GanglineError):
    """The thing exists already, or its present state forbids the request."""


class StaleVersionError(ConflictError):
    """Somebody else changed the record first."""

    def __init__(self, kind: str, name: str, *, expected: int, found: int | None) -> None:
        self.kind = kind
        self.name = name
        self.expected = expected
        self.found = found
        super().__init__(
            f"somebody else changed {kind} '{name}' meanwhile (version {found}, not {expected}); try again"
        )


class PreconditionFailedError(ConflictError):
    """The record is not, or no longer, the version that the caller named."""


class KeyReusedError(ConflictError):
    """The Idempotency-Key was used for another request."""


class RequestUnderWayError(ConflictError):
    """The very same request is being handled; its answer can be had in a moment."""


class InvalidTransitionError(ConflictError):
    """The lifecycle table has no answer to this event in this phase."""

    def __init__(self, job: str, phase: str, event: str, *, hint: str | None = None) -> None:
        self.job = job
        self.phase = phase
        self.event = event
        self.hint = hint
        super().__init__(f"job '{job}' is {phase}: {hint or f'{event} does not apply'}")


class PermissionDeniedError(GanglineError):
    """The caller may not do this."""


class UnauthenticatedError(PermissionDeniedError):
    """The caller has not proved who they are; logging in again may help."""


class TooManyRequestsError(GanglineError):
    """The caller asks for more at a time than one may."""


class UnreachableError(GanglineError):
    """The service or the cluster does not answer."""


class WaitTimeoutError(GanglineError):
    """The caller's own time limit ran out; nothing was changed."""


class EngineError(GanglineError):
    """An engine could not do what it was told."""


class StorageError(GanglineError):
    """A store could not keep or return a record."""


class StorageFullError(StorageError):
    """There is no room for a record; nothing was changed."""


class RecordTooLargeError(StorageError):
    """One record has grown larger than its store can keep; asking again will not help, nothing was changed."""


class UnreadableRecordError(StorageError):
    """One record is damaged, or breaks the rules of this version; asking again will not help, others can be read."""
