"""`python -m gangline.ps --optimizer adam`: a job's parameter server without a line of code."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from gangline.ps.entry import serve
from gangline.ps.errors import ParameterServerError
from gangline.ps.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Read the options, serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m gangline.ps", description=__doc__)
    for field in fields(Settings):
        option = "--" + field.name.replace("_", "-")
        kind = float if isinstance(field.default, float) else str
        parser.add_argument(option, type=kind, default=field.default, help=f"default: {field.default}")
    options = parser.parse_args(arguments)
    try:
        serve(Settings(**vars(options)))
    except ParameterServerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
