"""Errors of the parameter server. They have their own root: training code does not carry the platform.

ParameterServerError
    SettingsError            an option that cannot be understood
    ShapeMismatchError       arrays that differ from what the servers hold
    UnknownNameError         a parameter nobody declared
    NonFiniteGradientError   a gradient with NaN or infinity, under the policies reject and stop
    OptimizerError           an optimizer of the user's own raised on a server
    OldMapError              the sender's map is older than the server's; the session fetches the new one itself
    MissingBlocksError       the server lost blocks that the map gives it; the session uploads them itself
    NoMapError               the server knows of no model yet
    NotLeadError             the server does not lead the training; the session finds the one that does itself
    UnknownWorkerError       the worker's lease ended; the session joins again itself
    ReplacedError            a newer process has taken this worker's name
    WireError                bytes that are not a message of this protocol
    AuthenticationError      the other side does not know the job's secret; also an OSError, as of a server that is away
    ServerLostError          a server stayed away longer than the session may wait

A server answers a refused request with the class's code and the message; the client raises the same class again.
"""

from __future__ import annotations


class ParameterServerError(Exception):
    """Root of what this package raises."""

    code = "error"


class SettingsError(ParameterServerError):
    """An option that cannot be understood."""

    code = "settings"


class ShapeMismatchError(ParameterServerError):
    """Arrays whose shape, type or number differs from what was declared."""

    code = "shape"


class UnknownNameError(ParameterServerError):
    """A parameter that nobody declared."""

    code = "name"


class NonFiniteGradientError(ParameterServerError):
    """A gradient that holds NaN or infinity."""

    code = "nan"


class OptimizerError(ParameterServerError):
    """An optimizer of the user's own failed on a server."""

    code = "optimizer"


class OldMapError(ParameterServerError):
    """The sender's map is older than the one in force."""

    code = "map"


class MissingBlocksError(ParameterServerError):
    """The server does not hold blocks that the map in force gives it."""

    code = "missing"


class NoMapError(ParameterServerError):
    """The server knows of no model yet."""

    code = "unmapped"


class NotLeadError(ParameterServerError):
    """A question for the lead reached a server that is not, or no longer, the lead."""

    code = "lead"


class UnknownWorkerError(ParameterServerError):
    """The worker holds no lease."""

    code = "worker"


class ReplacedError(ParameterServerError):
    """A newer incarnation of this worker has joined; this one must end."""

    code = "replaced"


class WireError(ParameterServerError):
    """Bytes that are not a message of this protocol."""

    code = "wire"


class AuthenticationError(ParameterServerError, ConnectionError):
    """The other side of a connection could not prove that it belongs to this job.

    A connection that failed, too: whoever answers at the address of a server that is away is not that server, and
    workers wait for theirs.
    """

    code = "secret"


class ServerLostError(ParameterServerError):
    """A server could not be reached for longer than the session may wait."""

    code = "lost"


_BY_CODE = {
    kind.code: kind
    for kind in (
        ParameterServerError,
        SettingsError,
        ShapeMismatchError,
        UnknownNameError,
        NonFiniteGradientError,
        OptimizerError,
        OldMapError,
        MissingBlocksError,
        NoMapError,
        NotLeadError,
        UnknownWorkerError,
        ReplacedError,
        WireError,
        ServerLostError,
    )
}


def from_code(code: str, message: str) -> ParameterServerError:
    """The error a server's refusal stands for."""
    return _BY_CODE.get(code, ParameterServerError)(message)
