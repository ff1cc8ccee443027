"""Following a sweep to its end: a live table on a terminal, a line per change elsewhere."""

import sys
from collections import Counter

import click

from gangline.cli import terminal
from gangline.cli.output.sweep_table import duration_text, summary_text
from gangline.errors import NotFoundError
from gangline.model import FINAL_PHASES, Phase
from gangline.model.kinds.sweep import EndReason, SweepState
from gangline.sdk import Client, SweepStatus, TrialStatus
from gangline.sweeps import progress_text, result_text, values_text

_FAILURE = 1
_CUT_SHORT = (EndReason.TARGET_REACHED, EndReason.TIME_USED, EndReason.GPU_HOURS_USED)
_REASONS = 3
"""How many different reasons of failed trials are told; most often there is one for all."""


def follow_sweep(client: Client, name: str) -> int:
    """Show a sweep until nothing of it runs; return 0 if every trial completed."""
    try:
        if sys.stdout.isatty() and terminal.colours():
            # rich is imported only where somebody looks at it.
            from gangline.cli.following.live_sweep import follow_live

            last = follow_live(client, name)
        else:
            last = _follow_plainly(client, name)
    except KeyboardInterrupt:
        terminal.say(f"{name} goes on; 'gangline sweep get {name}' shows it, 'gangline sweep stop {name}' ends it")
        raise
    return finish_sweep(last)


def finish_sweep(sweep: SweepStatus) -> int:
    """Tell how a sweep ended and return the exit code."""
    terminal.say(summary_text(sweep))
    reasons = Counter((trial.reason, trial.message) for trial in sweep.trials if trial.phase is Phase.FAILED)
    for (reason, message), count in reasons.most_common(_REASONS):
        terminal.say(f"{count} FAILED with {reason}" + (f": {message}" if message else ""))
    good = sweep.state is SweepState.FINISHED and all(_is_good(sweep, trial) for trial in sweep.trials)
    return 0 if good else _FAILURE


def _is_good(sweep: SweepStatus, trial: TrialStatus) -> bool:
    """Whether a trial completed, or was ended as its sweep wanted."""
    if trial.phase is Phase.COMPLETED or trial.stopped:
        return True
    return trial.phase is Phase.CANCELLED and sweep.end is not None and sweep.end.reason in _CUT_SHORT


def _follow_plainly(client: Client, name: str) -> SweepStatus:
    told: dict[int, Phase] = {}
    for sweep in client.sweeps.watch(name):
        for trial in sweep.trials:
            if told.get(trial.number) is trial.phase:
                continue
            told[trial.number] = trial.phase
            words = [trial.job, values_text(trial), trial.phase.value]
            if trial.phase in FINAL_PHASES:
                words += [result_text(trial), duration_text(trial, terminal.now()), progress_text(sweep)]
            click.echo("  ".join(words))
            sys.stdout.flush()
        if sweep.settled:
            return sweep
    raise NotFoundError("sweep", name, hint="it was deleted meanwhile")
