"""The kind Notification: tells others of the phases of jobs, by webhooks, messages and e-mail."""

from dataclasses import replace

from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Verb
from gangline.kinds.notification.plan import plan_notification
from gangline.model.kinds.notification import Notification, NotificationSpec, NotificationStatus


def enable(notification: Notification) -> Notification:
    """Tell of changes again, from now on."""
    status = replace(notification.status, disabled_at=None, retry_at=None, failures=0, problem="")
    return replace(notification, status=status)


def _whom(notification: Notification) -> str:
    spec = notification.spec
    return ", ".join(spec.to) or spec.url or f"Secret {spec.secret}"


NOTIFICATION: Kind[NotificationSpec, NotificationStatus, Notification] = Kind(
    name="notification",
    plural="notifications",
    summary="Send notifications when jobs change phase.",
    description="Whom to tell of which phases of which jobs, by webhook, Slack or e-mail.",
    spec=NotificationSpec,
    status=NotificationStatus,
    format=derived_format(NotificationSpec, "Notification", "Whom to tell of which phases of which jobs."),
    answer=Notification,
    columns=(
        Column("STATE", lambda found: found.state),
        Column("TYPE", lambda found: found.spec.type),
        Column("TO", _whom, wide=True),
        Column("SENT", lambda found: found.status.sent),
        Column("PENDING", lambda found: len(found.status.pending)),
        Column("DROPPED", lambda found: found.status.dropped, wide=True),
        Column("PROBLEM", lambda found: found.status.problem or None, last=True),
    ),
    verbs=(Verb("enable", "Tell again after it was disabled.", enable, makes_it="enabled"),),
    plan=plan_notification,
)
