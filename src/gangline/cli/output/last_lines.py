"""The last lines of a job that has failed: what most people would ask for next."""

import click

from gangline.cli import terminal
from gangline.errors import GanglineError
from gangline.model import Job, Phase, ReplicaId, ReplicaState
from gangline.sdk import Client

_LINES = 10
_READ_LINES = 50
"""How many are read to find those that went to standard error."""
_LONGEST = 300


def last_lines(client: Client, job: Job) -> list[str]:
    """Return a heading and the last lines of the replica that failed first, safe to show; nothing if none failed."""
    replica = _failed_first(job)
    if replica is None:
        return []
    try:
        lines = list(client.logs(job.id, role=replica.role, index=replica.index, tail=_READ_LINES))
    except GanglineError:
        return []  # the output may be gone already, or out of reach; what is known of the job has been shown
    errors = [line for line in lines if line.stream == "stderr"]
    shown = [text for line in errors or lines if (text := _clean(line.text)).strip()][-_LINES:]
    return [f"Last lines of {replica}:", *(f"  {text}" for text in shown)] if shown else []


def tell_last_lines(client: Client, job: Job) -> None:
    """Tell the last lines of a failed job beside the data."""
    for line in last_lines(client, job):
        terminal.say(line)


def _failed_first(job: Job) -> ReplicaId | None:
    if job.phase is not Phase.FAILED:
        return None
    failed = [status for status in job.replicas if status.state is ReplicaState.FAILED]
    return min(failed, key=lambda status: status.finished_at or 0).id if failed else None


def _clean(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in click.unstyle(text))[:_LONGEST]
