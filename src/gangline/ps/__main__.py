"""`python -m gangline.ps`: a job's parameter server without a line of code.

Given neither optimizer, learning rate, consistency nor policy, it takes all four from the first worker that joins.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from gangline.ps.entry import serve
from gangline.ps.errors import ParameterServerError
from gangline.ps.settings import Settings, Training


def main(arguments: list[str] | None = None) -> int:
    """Read the options, serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m gangline.ps", description=__doc__)
    for field in fields(Settings):
        if field.name == "from_workers":  # follows from the others
            continue
        option = "--" + field.name.replace("_", "-")
        kind = float if isinstance(field.default, float) else str
        default = "the workers', else " if field.name in Training.__struct_fields__ else ""
        parser.add_argument(option, type=kind, default=argparse.SUPPRESS, help=f"default: {default}{field.default}")
    given = vars(parser.parse_args(arguments))
    try:
        serve(Settings(**given, from_workers=given.keys().isdisjoint(Training.__struct_fields__)))
    except ParameterServerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
