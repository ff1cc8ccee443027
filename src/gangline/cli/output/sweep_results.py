"""What a sweep found, as rows of tables and of CSV files."""

from collections.abc import Iterable, Sequence

import click

from gangline.cli import terminal
from gangline.cli.output import table
from gangline.cli.output.documents import csv_text
from gangline.cli.output.drawings.curves import Curve
from gangline.errors import ConflictError, InvalidInputError
from gangline.sdk import SweepStatus, TrialStatus
from gangline.sweeps import coordinates, history, ranked, slices

Rows = list[tuple[str, ...]]


def best_trials(sweep: SweepStatus, most: int | None) -> list[TrialStatus]:
    """Return the best trials: this many, or the Pareto front of several objectives, or the one best."""
    found = ranked(sweep)
    if not found:
        raise ConflictError(f"the sweep '{sweep.name}' has no result: no trial has reported an objective")
    if most is None and sweep.front:
        return [trial for trial in found if trial.number in sweep.front]
    return found[: most or 1]


def trial_rows(sweep: SweepStatus, trials: Iterable[TrialStatus]) -> tuple[tuple[str, ...], Rows]:
    """Write trials with every value and every objective in full."""
    parameters = [each.name for each in sweep.spec.parameters]
    metrics = [each.metric for each in sweep.spec.objectives]
    rows = [
        (
            trial.job,
            *(trial.values.get(name, "") for name in parameters),
            *(repr(trial.results[name]) if name in trial.results else "" for name in metrics),
            trial.phase.value,
        )
        for trial in trials
    ]
    return ("trial", *parameters, *metrics, "phase"), rows


def history_rows(sweep: SweepStatus) -> tuple[tuple[str, ...], Rows]:
    """Write how the best result became better."""
    rows: Rows = [(each.trial.job, repr(each.result), repr(each.best)) for each in history(sweep)]
    return ("trial", "result", "best"), rows


def history_curves(sweep: SweepStatus) -> list[Curve]:
    """Return the results and the best of them, by the order in which trials ended."""
    moments = list(enumerate(history(sweep), 1))
    return [
        Curve(label="best so far", points=tuple((float(index), each.best) for index, each in moments)),
        Curve(label="result", points=tuple((float(index), each.result) for index, each in moments)),
    ]


def importance_rows(sweep: SweepStatus) -> tuple[tuple[str, ...], Rows]:
    """Write what each parameter explains of the results, most first."""
    found = sorted(sweep.importance.items(), key=lambda pair: (-pair[1], pair[0]))
    return ("parameter", "explains"), [(name, f"{share:.3f}") for name, share in found]


def slice_rows(sweep: SweepStatus, parameter: str | None) -> tuple[tuple[str, ...], Rows]:
    """Write the results by the values of each parameter, or of one."""
    found = slices(sweep)
    names = [each.parameter for each in found]
    if parameter is not None and parameter not in names:
        raise InvalidInputError(f"'{parameter}' does not vary", field="--parameter", expected=", ".join(names))
    rows: Rows = [
        (each.parameter, value, repr(result), trial.job)
        for each in found
        if parameter in (None, each.parameter)
        for trial, value, result in each.points
    ]
    return ("parameter", "value", "result", "trial"), rows


def coordinate_rows(sweep: SweepStatus) -> tuple[tuple[str, ...], Rows]:
    """Write where the values of each trial lie on the axes of the parameters, the best trial first."""
    rows: Rows = [
        (line.trial.job, *("" if place is None else f"{place:.3f}" for place in line.places), repr(line.result))
        for line in coordinates(sweep)
    ]
    return ("trial", *(each.name for each in sweep.spec.parameters), "result"), rows


def print_rows(headings: Sequence[str], rows: Rows, *, as_csv: bool) -> None:
    """Print a table, or the same as CSV."""
    if as_csv:
        click.echo(csv_text(headings, rows), nl=False)
        return
    shown = [tuple(cell or "-" for cell in row) for row in rows]
    for line in table.lines([heading.upper() for heading in headings], shown, width=terminal.width()):
        click.echo(line)
