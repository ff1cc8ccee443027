"""A notification: whom to tell of which phases of which jobs, and how far that has come."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_TENANT, JobId, Tenant, check_name
from gangline.model.jobs.phase import FINAL_PHASES, Phase
from gangline.model.record import Record

_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MOST_MAILBOXES = 20


class NotificationType(StrEnum):
    """How somebody is told."""

    WEBHOOK = "webhook"
    """A signed document, posted to an address."""
    SLACK = "slack"
    """A text, posted as Slack's incoming webhooks read it."""
    EMAIL = "email"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSpec:
    """What a file of kind Notification says."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    type: Annotated[NotificationType, "How to tell: webhook, slack or email."] = NotificationType.WEBHOOK
    url: Annotated[str, "Where it is posted; an address that is secret is the value 'url' of the Secret."] = ""
    secret: Annotated[str, "A Secret of the tenant: 'key' signs what is posted, 'url' is where to."] = ""
    to: Annotated[tuple[str, ...], "The mailboxes that are written to."] = ()
    phases: Annotated[tuple[str, ...], "The phases that are told; those in which a job ends unless said."] = ()
    jobs: Annotated[tuple[str, ...], "The names of the jobs that are told of; any without."] = ()
    selector: Annotated[Mapping[str, str], "Labels that a job must have to be told of."] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if self.secret:
            check_name(self.secret, "spec.secret")
        for phase in self.phases:
            if phase not in Phase.__members__:
                raise InvalidInputError(
                    f"'{phase}' is not a phase", field="spec.phases", expected=f"some of {', '.join(Phase)}"
                )
        if self.type is NotificationType.EMAIL:
            self._check_mail()
        else:
            self._check_post()

    def _check_mail(self) -> None:
        if self.url or self.secret:
            raise InvalidInputError("an e-mail has no address to post to", field="spec.url", expected="'to' alone")
        if not 1 <= len(self.to) <= _MOST_MAILBOXES:
            raise InvalidInputError(
                f"{len(self.to)} mailboxes", field="spec.to", expected=f"1 to {_MOST_MAILBOXES} of them"
            )
        for each in self.to:
            if not _MAILBOX.fullmatch(each):
                raise InvalidInputError(f"'{each}' is not a mailbox", field="spec.to", expected="name@example.org")

    def _check_post(self) -> None:
        if self.to:
            raise InvalidInputError("mailboxes are for the type email", field="spec.to", expected="'url' or 'secret'")
        if not self.secret:
            needed = "'url' says where to" if self.type is NotificationType.SLACK else "'key' signs what is posted"
            raise InvalidInputError(
                "it names no Secret", field="spec.secret", expected=f"a Secret of the tenant, whose value {needed}"
            )
        if self.url and self.type is NotificationType.SLACK:
            raise InvalidInputError(
                "whoever knows the address can post to the channel",
                field="spec.url",
                expected="the address as the value 'url' of the Secret",
            )
        if self.url and (problem := problem_of_url(self.url)):
            raise InvalidInputError(problem, field="spec.url", expected="https://HOST/PATH")

    @property
    def told_phases(self) -> frozenset[Phase]:
        """The phases that are told."""
        return frozenset(map(Phase, self.phases)) or FINAL_PHASES


def problem_of_url(url: str) -> str:
    """Say what is wrong with an address, without its text, which may be secret; nothing is the empty text."""
    try:
        found = urlsplit(url)
        usable = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        return "it is not an address of http or https"
    return "it has a password, which everybody would see" if found.username or found.password else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One phase of one job that is to be told. The same change always has the same id."""

    id: str
    job: str
    job_id: JobId
    phase: Phase
    previous: Phase | None
    reason: str
    message: str
    at: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedJob:
    """How many entries of a job's history were looked at. One that has ended is forgotten after ``until``."""

    entries: int
    until: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationStatus:
    """How far a notification has come. Changes of jobs are in ``pending`` until they were told."""

    sent: int = 0
    dropped: int = 0
    """How many were not told, because it was disabled or too many were pending."""
    pending: tuple[Delivery, ...] = ()
    failures: int = 0
    """How many attempts in a row have failed."""
    problem: str = ""
    """Why the last of them did."""
    tried_at: Timestamp | None = None
    retry_at: Timestamp | None = None
    disabled_at: Timestamp | None = None
    seen_at: Timestamp | None = None
    """Jobs that were made before this, and are not followed, were told to their end."""
    following: Mapping[JobId, FollowedJob] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.disabled_at is not None:
            return "disabled"
        return "failing" if self.failures else "active"

    @property
    def settled(self) -> bool:
        """Never: there may always be another change."""
        return False


Notification = Record[NotificationSpec, NotificationStatus]
