"""``kubectl gangline ...``: the command line as a plug-in of kubectl, for the cluster that kubectl means.

kubectl finds the programs ``kubectl-gangline`` and ``kubectl_complete-gangline`` on the path: entry points of ours.
"""

import os
import sys
from collections.abc import Sequence

from gangline.cli.failures import report
from gangline.cli.main import cli, run
from gangline.errors import GanglineError

_NO_FILES = ":4"
"""What tells kubectl to offer nothing but these words."""


def main() -> None:
    """Run one command for the cluster of kubectl's current context, or of ``--context``."""
    try:
        words = arguments(sys.argv[1:])
    except GanglineError as error:
        sys.exit(report(error))
    sys.exit(run(words))


def arguments(words: Sequence[str]) -> list[str]:
    """Return the command line that a line behind ``kubectl gangline`` means.

    kubectl takes ``--context`` and ``--kubeconfig`` anywhere; here one stands first and the other is a variable.
    """
    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    found: dict[str, str] = {}
    line = iter(words[:end])
    for word in line:
        name, equals, value = word.partition("=")
        if name in ("--context", "--kubeconfig"):
            found[name] = value if equals else next(line, "")
        else:
            kept.append(word)
    if "--kubeconfig" in found:
        os.environ["KUBECONFIG"] = found["--kubeconfig"]
    rest = [*kept, *words[end:]]
    if not kept or kept[0] in ("-h", "--help", "--version"):
        return rest
    return ["--context", found.get("--context") or _current(), *rest]


def _current() -> str:
    from gangline.compose.contexts import access_of

    return access_of("").context


def complete() -> None:
    """Print what may come next, one word a line, as kubectl asks plug-ins for it."""
    from click.shell_completion import ShellComplete

    *before, typed = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "gangline", "_GANGLINE_COMPLETE").get_completions(before, typed):
        print(item.value)  # kubectl reads it
    print(_NO_FILES)


if __name__ == "__main__":
    main()
