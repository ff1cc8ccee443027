"""From submission to the end of ``true``: a cold Gangline, a warm one, and others beside it.

    python bench/first_job.py [--runs 5] [--others VENV]

``--others`` names a virtual environment with torchx and metaflow; it is made and filled from the registry if it does
not exist (``--others new`` uses a throw-away one). Each run is wall time of the whole command line, as a user waits
for it. Cold: no service runs and the home is empty. Warm: the service runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

FLOW = """
from metaflow import FlowSpec, step
import subprocess

class TrueFlow(FlowSpec):
    @step
    def start(self):
        subprocess.run(["true"], check=True)
        self.next(self.end)

    @step
    def end(self):
        pass

if __name__ == "__main__":
    TrueFlow()
"""


def timed(command: list[str], place: Path, environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return elapsed


def gangline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gangline.cli.main", *arguments]


def measure_gangline(runs: int, place: Path) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"gangline, cold service": [], "gangline, warm service": []}
    for run in range(runs):
        home = place / f"home-{run}"
        environment = {
            **os.environ,
            "GANGLINE_HOME": str(home),
            "GANGLINE_RUNTIME_DIRECTORY": str(place / f"run-{run}"),
        }
        try:
            for found in times.values():  # the first finds no service, the second finds the first one's
                found.append(timed(gangline("submit", "--wait", "--", "true"), place, environment))
        finally:
            subprocess.run(gangline("server", "stop"), env=environment, capture_output=True, check=True)
    return times


def other_programs(place: Path) -> dict[str, list[str]]:
    (place / "flow.py").write_text(FLOW)
    programs = place / "bin"
    return {
        "torchx run -s local_cwd": [
            str(programs / "torchx"), "run", "-s", "local_cwd", "--wait", "utils.sh", "true",
        ],
        "metaflow run": [str(programs / "python"), "flow.py", "run"],
    }  # fmt: skip


def install_others(place: Path) -> None:
    if not (place / "bin" / "torchx").exists():
        venv.create(place, with_pip=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # torchx imports what setuptools no longer ships in its newest releases
        subprocess.run([*pip, "torchx", "metaflow", "setuptools<81"], check=True)


def measure_others(runs: int, place: Path) -> dict[str, list[float]]:
    install_others(place)
    environment = {
        **os.environ,
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "USERNAME": "bench",
        "HOME": str(place),
    }
    programs = other_programs(place)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, command in programs.items():
            times[name].append(timed(command, place, environment))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--others", metavar="VENV")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-job-") as scratch:
        times = measure_gangline(options.runs, Path(scratch))
        if options.others:
            place = Path(scratch) / "others" if options.others == "new" else Path(options.others).absolute()
            times |= measure_others(options.runs, place)
    warm = statistics.median(times["gangline, warm service"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:<26} {median:6.2f} s  {median / warm:6.2f} x warm", file=sys.stderr)
    print(json.dumps({name: {"seconds": found, "median": statistics.median(found)} for name, found in times.items()}))


if __name__ == "__main__":
    main()
