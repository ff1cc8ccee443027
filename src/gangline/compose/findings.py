"""What an examination found, on this machine or in a cluster, and how to put it right."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How bad it is."""

    GOOD = "good"
    LIMITED = "limited"
    """Gangline works, with less than it could do."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found, and how to put it right."""

    subject: str
    health: Health
    found: str
    fix: str = ""

    @classmethod
    def good(cls, subject: str, found: str) -> "Finding":
        """Return what needs no cure."""
        return cls(subject=subject, health=Health.GOOD, found=found)

    @classmethod
    def limited(cls, subject: str, found: str, fix: str = "") -> "Finding":
        """Return what works in part."""
        return cls(subject=subject, health=Health.LIMITED, found=found, fix=fix)

    @classmethod
    def bad(cls, subject: str, found: str, fix: str) -> "Finding":
        """Return what is broken."""
        return cls(subject=subject, health=Health.BAD, found=found, fix=fix)
