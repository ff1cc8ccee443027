"""The entry point: ``gangline`` and ``python -m gangline``."""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from gangline import __version__
from gangline.cli.lazy import LazyGroup, ReaderLeftError

_INTERRUPTED = 130


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--server", metavar="ADDRESS", envvar="GANGLINE_SERVER", help="The service to use instead of the local one."
)
@click.option(
    "--context", metavar="NAME", help="Use the Kubernetes cluster of this kubeconfig context; '' means the local one."
)
@click.option(
    "-n", "--namespace", "--tenant", "tenant", metavar="NAME", help="Act for this tenant; on a cluster, a namespace."
)
@click.version_option(__version__, message="gangline %(version)s")
@click.pass_context
def cli(ctx: click.Context, server: str | None, context: str | None, tenant: str | None) -> None:
    """Train deep-learning models on many machines.

    \b
    gangline submit --workers 4 -- python train.py
    gangline logs -f train-x7k2
    """
    ctx.obj = {"server": server, "context": context, "tenant": tenant}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; an error is one line (with GANGLINE_DEBUG, a traceback)."""
    _prepare_output()
    sys.exit(run(arguments))


def _prepare_output() -> None:
    """Jobs print what they like: a character that this terminal does not have must not end the command.

    A standard output that was closed before we began takes what is written and keeps nothing; so does a closed standard
    error, because Python would print progress and errors among the data instead.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments), prog_name="gangline", standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except (ReaderLeftError, BrokenPipeError):
        return _reader_left()
    except Exception as error:
        if os.environ.get("GANGLINE_DEBUG"):
            raise
        from gangline.cli.failures import report

        return report(error)


def _reader_left() -> int:
    """Whoever read our output has seen enough (``gangline list | head``). Python must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    main()
