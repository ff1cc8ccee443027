"""Following a run of a pipeline: a line for each step that changes, until the end."""

import click

from gangline.cli import terminal
from gangline.cli.output.drawings.pipeline_tree import tree_lines
from gangline.kinds.pipeline import PIPELINE
from gangline.model.kinds.pipeline import PipelineState, StepState
from gangline.sdk import Client


def follow_run(client: Client, name: str) -> int:
    """Show every change; the exit code is 0 if the run succeeded."""
    known: dict[str, str] = {}
    for run in client.records(PIPELINE).watch(name):
        for step in run.status.steps:
            if known.get(step.path) != step.state:
                if step.began_at is not None and known.get(step.path) != StepState.RUNNING:
                    terminal.say(f"{step.path}: {StepState.RUNNING}")  # it ran and ended between two looks
                known[step.path] = step.state
                terminal.say(f"{step.path}: {step.state}" + (f": {step.message}" if step.message else ""))
        if run.settled:
            for line in tree_lines(run):
                click.echo(line)
            return 0 if run.status.state is PipelineState.SUCCEEDED else 1
    return 1
