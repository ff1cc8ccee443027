"""Runs the benchmarks one after the other and prints what each found, with the machine they ran on.

    python bench/all.py [NAME ...]        for example: python bench/all.py local_start store_list

Without names, all that need neither a GPU nor a cluster are run; those of the simulator only if GANGLINE_TRACES names
the directory of the public traces. docs/benchmarks.md keeps the figures.
"""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from traces import VARIABLE

HERE = Path(__file__).parent
ALONE = (
    "cli_help",
    "first_job",
    "local_start",
    "local_overhead",
    "local_logs",
    "store_list",
    "ps_throughput",
    "scheduling_cycle",
    "sweep_trials",
    "team_service",
    "team_arrivals",
)
"""What runs anywhere. The others say at their top what they need."""
WITH_TRACES = ("simulator_openb", "simulator_pollux", "simulator_philly")


def main() -> int:
    names = sys.argv[1:] or (*ALONE, *(WITH_TRACES if os.environ.get(VARIABLE) else ()))
    unknown = [name for name in names if not (HERE / f"{name}.py").exists()]
    if unknown:
        known = ", ".join(
            sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("all", "traces", "trainings"))
        )
        print(f"no benchmark named {unknown[0]}; there are {known}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} processors, Python {platform.python_version()}, load {load:.1f}, {time.strftime('%Y-%m-%d')}"
    )
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
