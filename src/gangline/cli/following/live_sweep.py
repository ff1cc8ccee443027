"""The live view of a sweep on a terminal: one row per trial, redrawn as they move."""

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gangline.cli import terminal
from gangline.cli.output.sweep_table import summary_text, trial_headings, trial_row
from gangline.errors import NotFoundError
from gangline.sdk import Client, SweepStatus

_MARGIN = 6
"""Lines of a terminal that rows of trials leave free."""


class LiveSweep:
    """What is known of the sweep now; rich asks it to draw itself a few times per second."""

    def __init__(self, sweep: SweepStatus, height: int) -> None:
        self.sweep = sweep
        self._rows = max(height - _MARGIN, 3)

    def __rich__(self) -> Group:
        sweep, now = self.sweep, terminal.now()
        grid = Table(box=None, padding=(0, 2, 0, 0))
        for heading in trial_headings(sweep):
            grid.add_column(heading, no_wrap=True, overflow="ellipsis")
        # What moves is at the end: earlier trials have ended and scroll out of sight first.
        for trial in sweep.trials[-self._rows :]:
            grid.add_row(*(Text.from_ansi(cell) for cell in trial_row(sweep, trial, now)))
        # As a title it would be broken at the width of the table. Whoever follows prints the last one themselves.
        return Group(grid) if sweep.settled else Group(Text(summary_text(sweep)), grid)


def follow_live(client: Client, name: str) -> SweepStatus:
    """Show the table until nothing of the sweep runs; return the sweep as it ended."""
    console = Console()
    view = LiveSweep(client.sweeps.get(name), console.height)
    with Live(view, console=console, refresh_per_second=4):
        for sweep in client.sweeps.watch(name):
            view.sweep = sweep
            if sweep.settled:
                return sweep
    raise NotFoundError("sweep", name, hint="it was deleted meanwhile")
