"""Writes docs/habits.md: what people type who come from other tools, and what Gangline makes of each line.

    python -m tools.habits_page

Nothing in the table is written by hand but the lines themselves: each is parsed by the real command line, down to the
command that would run with all its options. ``tests/cli/test_habits.py`` holds the page to it.
"""

import shlex
from pathlib import Path

import click

from gangline.cli.lazy import taught
from gangline.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "habits.md"

LINES: dict[str, tuple[str, ...]] = {
    "kubectl": (
        "get jobs",
        "get jobs -A",
        "get jobs --all-namespaces -o wide",
        "get jobs -n vision",
        "get job mnist",
        "get job/mnist -o json",
        "get job mnist -o yaml",
        "get jobs -o name",
        "get jobs -l team=vision",
        "get jobs --selector team=vision",
        "get jobs --sort-by=.status.created_at",
        "get jobs -o custom-columns=NAME:.metadata.name,PHASE:.status.phase",
        "get jobs -o jsonpath={.items[*].metadata.name}",
        "get jobs -w",
        "get pytorchjobs",
        "get tfjob mnist",
        "get trainjobs",
        "get nodes",
        "get queues",
        "get queue research -o yaml",
        "get sweeps",
        "get services",
        "get secrets",
        "describe job mnist",
        "describe job/mnist",
        "describe nodes",
        "describe queue research",
        "logs job/mnist",
        "logs -f mnist",
        "logs mnist --tail=100 --since=10m",
        "logs mnist --timestamps",
        "logs mnist -p",
        "logs mnist -c worker",
        "exec -it mnist -- bash",
        "exec mnist -- nvidia-smi",
        "exec mnist -c worker -- ls",
        "apply -f job.yaml",
        "apply -f job.yaml --dry-run",
        "create -f job.yaml",
        "diff -f job.yaml",
        "delete job mnist",
        "delete job/mnist job/other",
        "delete jobs -l team=vision",
        "delete jobs --all",
        "delete sweep grid",
        "delete -f job.yaml",
        "label job mnist best=yes",
        "label mnist draft-",
        "annotate job mnist a=b",
        "wait --for=condition=complete job/mnist --timeout=60s",
        "wait --for=condition=failed job/mnist",
        "scale mnist worker=8",
        "top nodes",
        "top pods",
        "cp mnist:results ./results",
        "edit job mnist",
        "patch job mnist",
        "port-forward mnist 8080",
        "cordon node-3",
        "explain mnist",
        "events mnist",
        "version",
    ),
    "docker": (
        "ps",
        "ps -a",
        "ps -q",
        "run python train.py",
        "run --name mnist -e SEED=1 -- python train.py",
        "run -e WANDB_API_KEY -- python train.py",
        "run --env-file .env -- python train.py",
        "run -d -- python train.py",
        "run --rm -- python train.py",
        "run -v /data:/data -- python train.py",
        "exec -it mnist bash",
        "logs -f mnist",
        "logs --tail 50 mnist",
        "stop mnist",
        "kill mnist",
        "rm mnist other",
        "inspect mnist",
        "stats",
        "top --once",
        "wait mnist",
        "cp mnist:model.pt .",
        "images",
        "build .",
        "push mnist",
        "pause mnist",
        "unpause mnist",
        "restart mnist",
        "diff mnist other",
        "volume ls",
        "volume create data",
        "login https://gangline.example.org",
    ),
    "sky": (
        "launch -- python train.py",
        "launch job.yaml",
        "run --num-nodes 4 -- python train.py",
        "run --use-spot -- python train.py",
        "status",
        "status mnist",
        "queue list",
        "logs mnist",
        "cancel mnist",
        "cancel --all",
        "stop --all -y",
        "down mnist",
        "autostop mnist",
        "exec mnist -- python eval.py",
        "ssh mnist",
        "jobs launch -- python train.py",
        "jobs queue",
        "jobs logs mnist",
        "jobs cancel mnist",
        "show-gpus",
        "check",
        "cost-report",
        "serve mnist",
    ),
    "dstack": (
        "apply -f job.yaml",
        "ps -w",
        "attach mnist",
        "stop mnist",
        "metrics mnist",
        "offer",
        "fleet",
        "secrets",
        "secret list",
        "init torch",
        "delete mnist",
    ),
    "det": (
        "experiment list",
        "experiment describe search",
        "trial logs 3",
        "checkpoint list",
        "model list",
        "slot list",
        "agent list",
        "shell mnist",
        "template list",
    ),
    "torchx": (
        "run -s kubernetes dist.ddp",
        "run --scheduler local -- python train.py",
        "status mnist",
        "describe mnist",
        "log mnist",
        "cancel mnist",
        "list",
        "builtins",
        "configure",
    ),
    "arena": (
        "submit pytorch --name=mnist --gpus=1 --workers=4 'python train.py'",
        "submit tf --name=mnist --workers=2 --ps=1 'python train.py'",
        "submit mpi --name=mnist --workers=2 'mpirun python train.py'",
        "submit horovod --name=mnist --workers=2 'python train.py'",
        "list",
        "list -A",
        "get mnist -e",
        "get mnist -g",
        "logs mnist -f",
        "logs mnist -i worker-1",
        "logviewer mnist",
        "attach mnist",
        "top node -d",
        "top job",
        "delete mnist",
        "prune --older-than 7d",
    ),
    "ray": (
        "job submit -- python train.py",
        "job submit --working-dir . -- python train.py",
        "job list",
        "job status mnist",
        "job logs mnist",
        "job logs mnist --follow",
        "job stop mnist",
        "job delete mnist",
        "status",
        "memory",
        "timeline",
        "summary",
    ),
}
"""What people type behind the name of the tool that they come from."""

HEAD = """# What your fingers know

Type what you know from another tool, with `gangline` in front: it does what you meant, or says what to type instead.
`run`, `ps`, `ls`, `status`, `stop`, `kill`, `rm`, `exec` and `ssh` are other names of our own commands; kubectl's
order (`get job NAME`, `job/NAME`), `-n`, `-A`, `-l` and `-o jsonpath=` mean what they mean there, and phases have their
everyday names: `running`, `pending`, `succeeded`. `python -m tools.habits_page` makes this page by asking the command
line itself, and a test holds it to that.
"""


def answer(line: str) -> tuple[bool, str]:
    """Return whether a line is a command of ours, and the command, or what is said instead."""
    words = shlex.split(line)
    try:
        with cli.make_context("gangline", list(words)) as ctx:
            name, command, rest = cli.resolve_command(ctx, _left(ctx))
            shown = shlex.join(["gangline", str(name), *rest])
            while command is not None:
                with command.make_context(name, list(rest), parent=ctx) as inner:
                    if not isinstance(command, click.Group) or not _left(inner):
                        break
                    name, command, rest = command.resolve_command(inner, _left(inner))
    except click.exceptions.NoArgsIsHelpError as error:
        return True, error.ctx.command_path if error.ctx else line
    except click.UsageError as error:
        return False, (taught(error) if isinstance(error, click.NoSuchOption) else error).format_message()
    return True, shown


def _left(ctx: click.Context) -> list[str]:
    """The words that the options of a group have left for the command below it."""
    return [*ctx._protected_args, *ctx.args]  # noqa: SLF001  # click has no public name for it that stays


def page() -> str:
    """Write the whole page."""
    parts = [HEAD]
    for tool, lines in LINES.items():
        parts.append(f"## {tool}\n\n| You type | Gangline |\n|---|---|")
        for line in lines:
            runs, text = answer(line)
            shown = f"`{text}`" if runs else f"says: {text}"
            parts[-1] += f"\n| `{line}` | {shown} |"
        parts[-1] += "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
