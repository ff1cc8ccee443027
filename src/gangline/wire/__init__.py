"""What service and client say to each other: one set of values, one codec, derived from their types.

The REST interface writes what operations return and the SDK reads the very same values back. ``plain`` also serves
``-o json`` and ``-o yaml``. Fields may be added; none is renamed or removed within ``v1``.
"""

from gangline.wire.codec import Codec, codec, plain
from gangline.wire.errors import ErrorBody, ErrorDetail, error_from_body, error_to_body
from gangline.wire.forms import iso
from gangline.wire.values import ANSWERS, Change, DashboardLink, LoginWays, Myself

__all__ = [
    "ANSWERS",
    "Change",
    "Codec",
    "DashboardLink",
    "ErrorBody",
    "ErrorDetail",
    "LoginWays",
    "Myself",
    "codec",
    "error_from_body",
    "error_to_body",
    "iso",
    "plain",
]
