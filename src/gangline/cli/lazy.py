"""The table of commands, and the group that imports one only when it is used.

The table holds what ``gangline --help`` shows, so that help costs no import but click's.
"""

from importlib import import_module
from importlib.util import find_spec

import click

from gangline.cli.habits import ALIASES, lesson, option_lesson, same_meaning, translated

COMMANDS: dict[str, dict[str, str]] = {
    "Everyday": {
        "init": "Write an example project to start from.",
        "submit": "Submit a job from options or from a file.",
        "apply": "Create or update what files describe.",
        "list": "List jobs, newest first.",
        "get": "Show a job and its latest metrics.",
        "logs": "Show the output of a job's replicas.",
        "logviewer": "Show where each replica's output can be seen.",
        "attach": "Run a command where a replica runs.",
        "shell": "Open a terminal where a replica runs.",
        "port-forward": "Reach a port of a replica from this machine.",
        "wait": "Wait until a job has reached a phase.",
        "delete": "Delete jobs and everything they left.",
        "sweep": "Try one job with many values.",
        "experiment": "Run Katib's Experiments.",
        "pipeline": "Run a graph of steps.",
        "serve": "Serve a model, or any program.",
        "service": "Roll out, scale and query services.",
        "inferenceservice": "Serve KServe's InferenceServices.",
        "trainjob": "Run Kubeflow Trainer's TrainJobs.",
        "trainingruntime": "Runtimes for one tenant's TrainJobs.",
        "clustertrainingruntime": "Runtimes for the TrainJobs of all tenants.",
        "notebook": "Start, open and stop notebooks.",
        "tensorboard": "Look at jobs in TensorBoard.",
        "workspace": "Notebooks, TensorBoards and other programs in a browser.",
    },
    "Managing jobs": {
        "halt": "Stop jobs and keep their checkpoints.",
        "resume": "Resume halted jobs from their checkpoints.",
        "rerun": "Submit a job again, optionally with changes.",
        "scale": "Change the number of replicas of a running job.",
        "cancel": "Cancel jobs; records and logs are kept.",
        "label": "Add labels to jobs, or remove them.",
        "prune": "Delete jobs that finished long ago.",
    },
    "Data": {
        "results": "List the files that a job has left so far.",
        "cp": "Copy files from a job or to one.",
        "checkpoints": "List the checkpoints that a job has saved.",
        "model": "Register, promote and download models.",
        "store": "Add, list and remove object stores.",
        "secret": "Keep secret values for jobs' environments.",
        "volume": "Create, list and delete volumes.",
    },
    "Inspecting": {
        "describe": "Show everything known about a job.",
        "events": "Show what happened to a job.",
        "metrics": "Show a job's metrics over time.",
        "explain": "Explain why a job waits and what would help.",
        "diff": "Show how two jobs differ.",
        "lineage": "Show where data, a model or a job came from.",
        "top": "Show what nodes and jobs use now.",
        "cost": "Add up what jobs have used, and what it costs.",
        "usage": "Add up what tenants, queues and users have used.",
        "queue": "Create, list and change queues.",
        "queues": "List the queues.",
        "what-if": "Predict what would happen to a job before you submit it.",
        "simulate": "Run a trace of jobs through the scheduler in virtual time.",
        "debug": "Collect what helps to diagnose a job in one archive.",
        "notification": "Send notifications when jobs change phase.",
        "chaos": "Kill replicas of a job to see it survive.",
    },
    "Gangline itself": {
        "server": "Start, stop and look at the local service.",
        "dashboard": "Open the web page of the service.",
        "login": "Log in to a team's service.",
        "logout": "Forget a login.",
        "token": "Create, list and revoke tokens of a team's service.",
        "audit": "Show who changed what on a team's service.",
        "install": "Install Gangline into a Kubernetes cluster.",
        "uninstall": "Remove Gangline from a Kubernetes cluster.",
        "controller": "Run the controller of a Kubernetes cluster.",
        "config": "Show and change settings.",
        "doctor": "Check this machine and the service.",
        "completion": "Print the completion script of a shell.",
        "version": "Show the version.",
    },
}
"""Sections, commands, and one line on each."""

_SUMMARIES = {name: summary for section in COMMANDS.values() for name, summary in section.items()}


_BELOW_PIPELINE = frozenset({"runexperiment", "schedule", "template", "templateversion"})
"""Kinds whose commands are below ``gangline pipeline``."""

_DESTRUCTIVE = ("prune", "delete", "uninstall", "cancel")
"""Commands that are not suggested to somebody who may have meant something else."""


def _meant(word: str) -> str | None:
    """The command that somebody probably meant, by its meaning or by its letters."""
    import difflib

    if meant := same_meaning(word):
        return meant
    nearest = difflib.get_close_matches(word, _SUMMARIES, n=1)
    if nearest and nearest[0] in _DESTRUCTIVE:
        nearest = difflib.get_close_matches(word, nearest, n=1, cutoff=0.8)
    return nearest[0] if nearest else None


def _hint(word: str) -> str:
    if said := lesson(word):
        return f" {said[0].upper()}{said[1:]}."
    meant = _meant(word)
    return f" Did you mean '{meant}'?" if meant else " 'gangline --help' lists them."


def taught(error: click.NoSuchOption) -> click.UsageError:
    """Return the error with what to do instead of an option that people know from another tool."""
    command = error.ctx.command.name if error.ctx is not None and error.ctx.command else None
    said = option_lesson(command or "", error.option_name)
    return click.UsageError(f"{error.message} Here {said}.", error.ctx) if said else error


def _plugged_in() -> dict[str, str]:
    """Return the kinds of other packages, each with one line on it."""
    from gangline.kinds.registry import kind_named, registered, unloadable

    broken = {name: f"(cannot be loaded: {reason})" for name, reason in unloadable().items()}
    known = _SUMMARIES.keys() | _BELOW_PIPELINE
    return {name: broken.get(name) or kind_named(name).summary for name in registered() if name not in known}


def _made_from_kind(name: str) -> click.Command:
    """Make the command of a kind that needs none of its own."""
    from gangline.cli.kind_commands import kind_group
    from gangline.kinds import kind_named

    return kind_group(kind_named(name))


class ReaderLeftError(Exception):
    """Whoever read our output has seen enough. Told by an error of our own, because click answers EPIPE with code 1."""


class LazyGroup(click.Group):
    """A group whose commands live in gangline.cli.commands, one module each."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise taught(error) from error
        except BrokenPipeError as error:
            raise ReaderLeftError from error
        except Exception as error:
            if type(error).__name__ == "UnreachableError" and "gangline context" in ctx.meta:
                context = ctx.meta["gangline context"]
                error.add_note(f"'kubectl {f'--context {context} ' * bool(context)}version' shows whether it is there")
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command, in the order of the table, as completion offers them."""
        return [*_SUMMARIES, *_plugged_in()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _SUMMARIES and cmd_name not in _plugged_in():
            return None
        module = f"gangline.cli.commands.{cmd_name.replace('-', '_')}"
        if find_spec(module) is None:
            return _made_from_kind(cmd_name)
        command = import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"the module of {cmd_name} defines no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest."""
        args = translated(args)
        if args and args[0] not in _SUMMARIES and not args[0].startswith("-") and args[0] not in _plugged_in():
            raise click.UsageError(f"there is no command '{args[0]}'.{_hint(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all commands from the table alone."""
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()), col_max=14)
        with formatter.section("Also understood"):
            meanings = [(alias, f"The same as {command}.") for alias, command in ALIASES.items()]
            formatter.write_dl(meanings, col_max=14)
        if plugged_in := _plugged_in():
            with formatter.section("From other packages"):
                formatter.write_dl(list(plugged_in.items()), col_max=14)
