"""Sweeps and their trials as rows of tables."""

from collections import Counter
from math import prod

import click

from gangline.cli import table, terminal, words
from gangline.model import FINAL_PHASES, Phase, Timestamp
from gangline.sdk import SweepStatus, TrialStatus

SWEEP_HEADINGS = ("NAME", "STATE", "TRIALS", "AGE", "BEST")


def sweep_row(sweep: SweepStatus, now: Timestamp) -> tuple[str, ...]:
    """Write one sweep as a row."""
    return (sweep.name, sweep.state.value, progress_text(sweep), words.ago(sweep.created_at, now), best_text(sweep))


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


def result_text(trial: TrialStatus) -> str:
    """Write the newest value of the objective."""
    return "-" if trial.result is None else words.number(trial.result)


def duration_text(trial: TrialStatus, now: Timestamp) -> str:
    """Write how long the trial has run or ran."""
    if trial.started_at is None:
        return "-"
    return words.duration((trial.finished_at or now) - trial.started_at)


def values_text(trial: TrialStatus) -> str:
    """Write what makes this trial different."""
    return " ".join(f"{name}={value}" for name, value in trial.values.items())


def best_text(sweep: SweepStatus) -> str:
    """Write the best trial so far."""
    best = next((trial for trial in sweep.trials if trial.number == sweep.best), None)
    if best is None or sweep.spec.objective is None:
        return "-"
    return f"{sweep.spec.objective.metric} {result_text(best)} with {values_text(best)}"


def progress_text(sweep: SweepStatus) -> str:
    """Write how many trials have ended, of how many there will be (a grid) or are so far."""
    ended = sum(1 for trial in sweep.trials if trial.phase in FINAL_PHASES)
    combinations = prod(len(parameter.values) for parameter in sweep.spec.parameters)
    return f"{ended}/{combinations if sweep.spec.sampler == 'grid' else sweep.begun}"


def summary_text(sweep: SweepStatus) -> str:
    """Write how a sweep ended or stands, in one line."""
    counted = Counter(trial.phase for trial in sweep.trials)
    phases = ", ".join(f"{counted[phase]} {phase}" for phase in Phase if counted[phase]) or "no trials"
    best = best_text(sweep)
    return f"{sweep.name} is {sweep.state} ({phases})" + ("" if best == "-" else f"; best: {best}")


def print_trials(sweep: SweepStatus) -> None:
    """Print a sweep's trials as a table."""
    now = terminal.now()
    rows = [trial_row(sweep, trial, now) for trial in sweep.trials]
    for line in table.lines(trial_headings(sweep), rows, width=terminal.width()):
        click.echo(line)
