"""Sweeps and their trials as rows of tables."""

from collections import Counter

import click

from gangline.cli import terminal
from gangline.cli.output import formatting, table
from gangline.model import Phase, Timestamp
from gangline.model.kinds.sweep import EndReason, SweepState
from gangline.sdk import SweepStatus, TrialStatus
from gangline.sweeps import best_text, result_text


def trial_headings(sweep: SweepStatus) -> tuple[str, ...]:
    """Name the columns of the sweep's trials: one for each parameter."""
    result = sweep.spec.objective.metric.upper() if sweep.spec.objective else "RESULT"
    return (
        "TRIAL",
        *(parameter.name.upper() for parameter in sweep.spec.parameters),
        "PHASE",
        result,
        "TIME",
        "REASON",
    )


def trial_row(sweep: SweepStatus, trial: TrialStatus, now: Timestamp) -> tuple[str, ...]:
    """Write one trial as a row; the best one has a star."""
    values = (trial.values.get(parameter.name, "-") for parameter in sweep.spec.parameters)
    star = " *" if trial.number == sweep.best else ""
    reason = f"{trial.reason}: {trial.message}" if trial.message else trial.reason
    return (
        trial.job,
        *values,
        terminal.phase_text(trial.phase),
        f"{result_text(trial)}{star}",
        duration_text(trial, now),
        reason,
    )


def duration_text(trial: TrialStatus, now: Timestamp) -> str:
    """Write how long the trial has run or ran."""
    if trial.started_at is None:
        return "-"
    return formatting.duration((trial.finished_at or now) - trial.started_at)


def summary_text(sweep: SweepStatus) -> str:
    """Write how a sweep ended or stands, in one line."""
    counted = Counter(trial.phase for trial in sweep.trials)
    phases = ", ".join(f"{counted[phase]} {phase}" for phase in Phase if counted[phase]) or "no trials"
    best = best_text(sweep)
    if best is None and sweep.state is SweepState.FINISHED and counted[Phase.COMPLETED] and sweep.spec.objective:
        found = f"; no trial reported a number as {sweep.spec.objective.metric}"
    else:
        found = "" if best is None else f"; best: {best}"
    ended = f"; {sweep.end.message}" if sweep.end is not None and sweep.end.reason is not EndReason.EXHAUSTED else ""
    return f"{sweep.name} is {sweep.state} ({phases})" + ended + found


def print_trials(sweep: SweepStatus) -> None:
    """Print a sweep's trials as a table."""
    now = terminal.now()
    rows = [trial_row(sweep, trial, now) for trial in sweep.trials]
    for line in table.lines(trial_headings(sweep), rows, width=terminal.width()):
        click.echo(line)
