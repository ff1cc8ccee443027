"""From the address of a service to the way there: HTTP, or gRPC where the address says so."""

from collections.abc import Callable

from gangline.errors import InvalidInputError
from gangline.sdk.transports.http import HttpTransport
from gangline.sdk.transports.interface import Transport

RPC_SCHEMES = ("grpc://", "grpcs://")


def transport_to(address: str, *, token: Callable[[], str] | None = None, fingerprint: str = "") -> Transport:
    """Return the transport to ``unix:/path``, ``http(s)://host:port`` or ``grpc(s)://host:port``."""
    if not address.startswith(RPC_SCHEMES):
        return HttpTransport(address, token=token, fingerprint=fingerprint)
    try:
        from gangline.sdk.transports.grpc import GrpcTransport
    except ImportError as error:
        raise InvalidInputError(f"{address} needs the extra 'grpc': pip install 'gangline[grpc]'") from error
    return GrpcTransport(address, token=token, fingerprint=fingerprint)
