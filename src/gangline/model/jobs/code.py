"""How much code a job may ship."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """The most that a code archive may hold: as it is sent, and as it is unpacked for every replica.

    An archive of a few bytes can be unpacked to very many, so both are limited.
    """

    packed_bytes: int = 200 * 2**20
    unpacked_bytes: int = 300 * 2**20
    files: int = 100_000
