"""What ``gangline --help`` costs: CPU time, and its ratio to a Python that does nothing.

    python bench/cli_help.py [--runs 20]

The budget is 0.15 s of CPU on an ordinary machine. The ratio is what can be compared between machines.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import click": [sys.executable, "-c", "import click"],
    "gangline --help": [sys.executable, "-m", "gangline.cli.main", "--help"],
    "gangline submit --help": [sys.executable, "-m", "gangline.cli.main", "submit", "--help"],
}


def cpu_seconds(command: list[str]) -> float:
    """Run a command and return the CPU time of its process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):  # in turn, so that a noisy moment hits all of them
        for name, command in COMMANDS.items():
            times[name].append(cpu_seconds(command))
    medians = {name: statistics.median(found) for name, found in times.items()}
    bare = medians["python -c pass"]
    for name, median in medians.items():
        print(f"{name:<24} {median * 1000:7.1f} ms CPU  {median / bare:5.2f} x bare Python", file=sys.stderr)
    print(json.dumps({name: {"cpu_seconds": median, "ratio": median / bare} for name, median in medians.items()}))


if __name__ == "__main__":
    main()
