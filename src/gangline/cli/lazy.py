"""The table of commands, and the group that imports one only when it is used.

The table holds what ``gangline --help`` shows, so that help costs no import but click's.
"""

from importlib import import_module

import click

COMMANDS: dict[str, dict[str, str]] = {
    "Everyday": {
        "submit": "Submit a job from options or from a file.",
        "list": "List jobs, newest first.",
        "get": "Show a job and the numbers it reported.",
        "logs": "Show the output of a job's replicas.",
        "logviewer": "Show where each replica's output can be seen.",
        "attach": "Run a command where a replica runs.",
        "wait": "Wait until a job has reached a phase.",
        "delete": "Delete jobs and everything they left.",
        "sweep": "Try one job with many values.",
    },
    "Steering": {
        "halt": "Stop jobs so that they keep their checkpoint.",
        "resume": "Let halted jobs go on from their checkpoint.",
        "scale": "Change the number of replicas of a running job.",
        "cancel": "End jobs for good, keeping record and logs.",
        "prune": "Delete jobs that finished long ago.",
    },
    "Understanding": {
        "describe": "Show everything that is known of a job.",
        "events": "Show what happened to a job.",
        "metrics": "Show the numbers a job reported over time.",
        "explain": "Say why a job waits and what would help.",
        "top": "Show what nodes and jobs use now.",
        "queues": "List the queues.",
        "what-if": "Say what would happen to a job before it is submitted.",
        "simulate": "Run a trace of jobs through the scheduler in virtual time.",
        "chaos": "Kill replicas of a job to see it survive.",
    },
    "Gangline itself": {
        "server": "Start, stop and look at the local service.",
        "install": "Install Gangline into a Kubernetes cluster.",
        "uninstall": "Remove Gangline from a Kubernetes cluster.",
        "serve": "Run the controller of a Kubernetes cluster.",
        "config": "Show and change settings.",
        "doctor": "Check this machine and the service.",
        "completion": "Print the completion script of a shell.",
        "version": "Show the version.",
    },
}
"""Sections, commands, and one line on each."""

_SUMMARIES = {name: summary for section in COMMANDS.values() for name, summary in section.items()}


_SAME_MEANING = {
    "submit": ("run", "rerun", "start", "launch", "train", "create", "apply", "new", "retry"),
    "list": ("ls", "ps", "jobs", "status"),
    "get": ("show", "inspect", "info"),
    "logs": ("log", "tail", "output"),
    "attach": ("exec", "ssh", "shell", "enter"),
    "cancel": ("stop", "kill", "abort", "terminate", "end"),
    "delete": ("rm", "remove", "del"),
    "halt": ("pause", "suspend"),
    "resume": ("continue", "restart", "unpause"),
    "scale": ("resize",),
    "explain": ("why", "reason"),
    "events": ("history", "journal"),
    "top": ("nodes", "node", "usage", "stats"),
    "sweep": ("grid", "tune", "search", "trials"),
    "server": ("service", "daemon"),
    "install": ("deploy", "upgrade"),
    "config": ("settings", "set"),
}
"""What other tools call our commands: a word with the same meaning is a better guess than one with the same letters."""

_DESTRUCTIVE = ("prune", "delete", "uninstall", "cancel")
"""Commands that are not suggested to somebody who may have meant something else."""


def _meant(word: str) -> str | None:
    """The command that somebody probably meant, by its meaning or by its letters."""
    import difflib

    for command, others in _SAME_MEANING.items():
        if word.lower() in others:
            return command
    nearest = difflib.get_close_matches(word, _SUMMARIES, n=1)
    if nearest and nearest[0] in _DESTRUCTIVE:
        nearest = difflib.get_close_matches(word, nearest, n=1, cutoff=0.8)
    return nearest[0] if nearest else None


class ReaderLeftError(Exception):
    """Whoever read our output has seen enough. Told by an error of our own, because click answers EPIPE with code 1."""


class LazyGroup(click.Group):
    """A group whose commands live in gangline.cli.commands, one module each."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderLeftError from error
        except Exception as error:
            if type(error).__name__ == "UnreachableError" and "gangline context" in ctx.meta:
                context = ctx.meta["gangline context"]
                error.add_note(f"'kubectl {f'--context {context} ' * bool(context)}version' shows whether it is there")
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command, in the order of the table."""
        return list(_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _SUMMARIES:
            return None
        command = import_module(f"gangline.cli.commands.{cmd_name.replace('-', '_')}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"the module of {cmd_name} defines no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest."""
        if args and args[0] not in _SUMMARIES and not args[0].startswith("-"):
            meant = _meant(args[0])
            hint = f" Did you mean '{meant}'?" if meant else " 'gangline --help' lists them."
            raise click.UsageError(f"there is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all commands from the table alone."""
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()), col_max=14)
