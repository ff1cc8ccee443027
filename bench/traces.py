"""Where the benchmarks of the simulator find the public traces; not a benchmark itself."""

import os
import sys
from pathlib import Path

VARIABLE = "GANGLINE_TRACES"


def traces_folder() -> Path:
    """Return the directory named by the first word of the command line or by the variable; ends the program if none."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get(VARIABLE)
    if not given:
        sys.exit(f"name the directory of the traces: {sys.argv[0]} TRACES_DIRECTORY, or set {VARIABLE}")
    if not Path(given).is_dir():
        sys.exit(f"there is no directory {given}; it should hold the traces as docs/scheduling.md names them")
    return Path(given)
