"""The live view of one job on a terminal: phase, roles, progress and newest numbers below its scrolling output."""

import math
import threading
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gangline.cli import terminal
from gangline.cli.output import formatting
from gangline.cli.output.output_lines import LinePrinter, needs_prefix
from gangline.errors import NotFoundError, UnreachableError
from gangline.model import Job, Metric
from gangline.model.wording import reason_text, state_counts
from gangline.sdk import Client

PROGRESS_METRIC = "progress"
"""Training code that reports a number from 0 to 1 under this name gets a progress bar."""

_METRICS_SECONDS = 1.0
_BAR_WIDTH = 30


class LiveView:
    """What is known of the job now; rich asks it to draw itself a few times per second."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.metrics: Sequence[Metric] = ()

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [Text(), self._headline(), self._roles()]
        if numbers := self._numbers():
            parts.append(Text(numbers, style="dim"))
        return Group(*parts)

    def _headline(self) -> Text:
        job = self.job
        since = formatting.duration(terminal.now() - job.history[-1].at)
        return Text.assemble(
            (job.name, "bold"),
            "  ",
            Text.from_ansi(terminal.phase_text(job.phase)),
            f"  {since}  ",
            (reason_text(job), "dim"),
        )

    def _roles(self) -> Table:
        progress = self._progress()
        grid = Table.grid(padding=(0, 2))
        for role, states in state_counts(self.job).items():
            bar = ProgressBar(total=1.0, completed=progress[role], width=_BAR_WIDTH) if role in progress else Text()
            share = f"{progress[role]:.0%}" if role in progress else ""
            grid.add_row(Text(f"  {role}"), Text(states), bar, Text(share))
        return grid

    def _progress(self) -> dict[str, float]:
        """How far each role is: its slowest replica decides."""
        found: dict[str, float] = {}
        for metric in self.metrics:
            if metric.name == PROGRESS_METRIC and math.isfinite(metric.value):
                share = min(max(metric.value, 0.0), 1.0)
                found[metric.replica.role] = min(share, found.get(metric.replica.role, 1.0))
        return found

    def _numbers(self) -> str:
        """The newest value of every metric, whichever replica reported it last."""
        newest: dict[str, Metric] = {}
        for metric in sorted(self.metrics, key=lambda metric: metric.at):
            newest[metric.name] = metric
        newest.pop(PROGRESS_METRIC, None)
        shown = (
            f"{name} {formatting.number(metric.value)}" + ("" if metric.step is None else f" (step {metric.step})")
            for name, metric in sorted(newest.items())
        )
        return "  " + "   ".join(shown) if newest else ""


def follow_live(client: Client, job: Job) -> None:
    """Show a job's output with the live view below it until the job is finished or halted."""
    console, view, over = Console(), LiveView(job), threading.Event()
    for work in (_watch_job, _watch_metrics):
        threading.Thread(target=work, args=(client, view, over), daemon=True).start()
    printer = LinePrinter(prefixed=needs_prefix(job))
    try:
        with Live(view, console=console, refresh_per_second=4, transient=True):
            for line in client.logs(job.id, follow=True):
                console.print(Text.from_ansi(printer.text(line)), soft_wrap=True)
    finally:
        over.set()


def _watch_job(client: Client, view: LiveView, over: threading.Event) -> None:
    # The stream of output in the main thread tells of a service that went away.
    with suppress(UnreachableError, NotFoundError):
        for change in client.watch(view.job.id):
            if change.job is None or over.is_set():
                return
            view.job = change.job


def _watch_metrics(client: Client, view: LiveView, over: threading.Event) -> None:
    with suppress(NotFoundError):
        while not over.wait(_METRICS_SECONDS):
            # A service that is away for a moment is asked again in the next round.
            with suppress(UnreachableError):
                view.metrics = client.latest_metrics(view.job.id)
