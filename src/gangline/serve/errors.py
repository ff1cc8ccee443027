"""What goes wrong with a request or a model, each with the status that its sender is given."""


class ServeError(Exception):
    """The root of all errors of the model server."""

    status = 500
    """The HTTP status."""
    code = "INTERNAL"
    """The status of gRPC."""


class BadRequestError(ServeError):
    """What was sent cannot be understood, or does not fit the model."""

    status, code = 400, "INVALID_ARGUMENT"


class UnknownModelError(ServeError):
    """No such model, or no such version of it."""

    status, code = 404, "NOT_FOUND"


class NotReadyError(ServeError):
    """The model is known but cannot answer now."""

    status, code = 503, "UNAVAILABLE"


class OverloadedError(ServeError):
    """More requests wait than the server keeps."""

    status, code = 503, "RESOURCE_EXHAUSTED"


class TooLateError(ServeError):
    """The model did not answer in time."""

    status, code = 504, "DEADLINE_EXCEEDED"


class ModelFailedError(ServeError):
    """The model's own code raised."""

    status, code = 500, "INTERNAL"


class LoadError(ServeError):
    """A model cannot be loaded."""

    status, code = 400, "FAILED_PRECONDITION"
