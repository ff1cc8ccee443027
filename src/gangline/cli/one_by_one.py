"""The same request for several jobs: what one of them does not allow keeps nothing from the others."""

from collections.abc import Callable, Iterable

from gangline.cli import terminal
from gangline.errors import ConflictError, NotFoundError
from gangline.model import Job


def ask_for_each(names: Iterable[str], ask: Callable[[str], Job], tell: Callable[[Job], None]) -> None:
    """Ask for each job, tell of those it worked for, then of the refusals; raises the last of them."""
    refused: list[ConflictError | NotFoundError] = []
    for name in names:
        try:
            tell(ask(name))
        except (ConflictError, NotFoundError) as error:
            refused.append(error)
    for other in refused[:-1]:
        terminal.say(f"error: {other}")
    if refused:
        raise refused[-1]


def tell_phase(job: Job) -> None:
    """Say what a request has made of a job."""
    terminal.say(f"{job.name} is {job.phase}")
