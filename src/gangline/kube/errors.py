"""What can go wrong between Gangline and a Kubernetes API server, in one narrow tree.

Raised by this package alone; callers catch the narrowest class they can answer and read the facts from its
attributes, never from its text.

    KubeError
      KubeconfigError          the configuration is wrong or incomplete; names the file and the entry
      CredentialError          a credential plug-in or token file gave no usable credential
      UnreachableError         no answer: refused, reset, timed out, or TLS does not match
      StreamError              an exec or port-forward stream broke its protocol
        CommandError           a command ended with an error
      AnswerError              the answer is not what was asked for: a log-in page, or an object that cannot be read
      ApiError                 the server answered with a refusal (status, reason, message, causes)
        BadRequestError        400
        UnauthorizedError      401: the credential is not accepted
        ForbiddenError         403: the credential is accepted, the act is not (also quota and webhooks)
        NotFoundError          404
        ConflictError          409: somebody else wrote first
          AlreadyExistsError   409: the name is taken
        GoneError              410: the asked-for version is no longer kept; list again
        InvalidError           422: the object is wrong; ``causes`` name the fields
        ThrottledError         429: the server asked for patience longer than we retry
        ServerError            5xx
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gangline import errors
from gangline.kube import compact


class KubeError(errors.GanglineError):
    """The root of everything this package raises on purpose."""


class KubeconfigError(KubeError):
    """The configuration is wrong or incomplete."""


class CredentialError(KubeError):
    """A credential plug-in or token file gave no usable credential."""


class UnreachableError(KubeError, errors.UnreachableError):
    """The API server gave no answer; ``url`` says which."""

    def __init__(self, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(f"{url} does not answer: {problem}")


class StreamError(KubeError):
    """An exec or port-forward stream broke its protocol or was cut."""


class CommandError(StreamError):
    """A command in a pod ended with an error; ``said`` is the end of what it wrote about it."""

    def __init__(self, exit_code: int, said: str) -> None:
        self.exit_code = exit_code
        self.said = said
        super().__init__(f"the command ended with {exit_code}: {said.strip()}")


class AnswerError(KubeError):
    """The server answered, and not with what was asked for: it may be no API server at all."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason inside a refusal; ``field`` is a path such as ``spec.roles.worker.replicas``."""

    reason: str
    message: str
    field: str


class ApiError(KubeError):
    """The server answered with a refusal."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        causes: Sequence[Cause] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class BadRequestError(ApiError):
    """400: the server could not make sense of the request."""


class UnauthorizedError(ApiError):
    """401: the credential is not accepted."""


class ForbiddenError(ApiError, errors.PermissionDeniedError):
    """403: the credential is accepted, the act is not; quota and admission refusals look the same."""


class NotFoundError(ApiError):
    """404: no such object, or no such kind of object."""


class ConflictError(ApiError, errors.ConflictError):
    """409: somebody else wrote first; read again and retry."""


class AlreadyExistsError(ConflictError):
    """409: the name is taken."""


class GoneError(ApiError):
    """410: the asked-for version is no longer kept; list again."""


class InvalidError(ApiError):
    """422: the object is wrong; ``causes`` name the fields."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the fields that were refused."""
        return tuple(cause.field for cause in self.causes if cause.field)


class ThrottledError(ApiError):
    """429: the server asked for more patience than the retries have."""


class ServerError(ApiError):
    """5xx: the server failed to answer."""


_BY_REASON: Mapping[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "Gone": GoneError,
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: ThrottledError,
}


class _WireCause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _WireDetails(msgspec.Struct, rename="camel"):
    causes: list[_WireCause] | None = None
    retry_after_seconds: int | None = None


class _WireStatus(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _WireDetails | None = None


_Answer = TypeVar("_Answer")


def read_answer(body: bytes, decoder: msgspec.json.Decoder[_Answer]) -> _Answer:
    """Decode what a server answered; raises AnswerError."""
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        beginning = body[:80].decode(errors="replace")
        raise AnswerError(f"the server's answer cannot be read: {error} (it begins with {beginning!r})") from error


def error_from_answer(status: int, body: bytes, *, retry_after_seconds: float | None = None) -> ApiError:
    """Build the error a refused request stands for; a body that is no ``Status`` (a proxy's page) is quoted."""
    try:
        plain = compact.status_from(body)
        wire = msgspec.convert(plain, _WireStatus) if plain else msgspec.json.decode(body, type=_WireStatus)
    except msgspec.MsgspecError:
        wire = _WireStatus(message=body[:500].decode(errors="replace").strip())
    status = status or wire.code
    details = wire.details or _WireDetails()
    kind = _BY_REASON.get(wire.reason) or _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
    return kind(
        wire.message or f"the server answered {status}",
        status=status,
        reason=wire.reason,
        causes=[Cause(cause.reason, cause.message, cause.field) for cause in details.causes or ()],
        retry_after_seconds=retry_after_seconds if retry_after_seconds is not None else details.retry_after_seconds,
    )
