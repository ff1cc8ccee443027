"""``python -m tools.mutants [PACKAGE...] [--all | --sample N] [--seed N] [--file NAME]``.

Reports which mutants no test notices. Those that nothing can or should notice are listed with a reason in
``accepted.toml``; the run fails if any other survives, or if fewer than 90 % of a package's mutants are killed.
"""

import argparse
import difflib
import random
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from tools.mutants.operators import Mutant, mutants
from tools.mutants.running import SOURCE, Reach, Workshop

PACKAGES: dict[str, tuple[str, ...]] = {
    "lifecycle": ("tests/lifecycle", "tests/controller"),
    "scheduling": ("tests/scheduling", "tests/simulator", "tests/forecast"),
    "sweeps": ("tests/sweeps", "tests/controller", "tests/operations"),
    "storage": ("tests/storage", "tests/contract/test_stores.py", "tests/operations", "tests/controller"),
    "controller": ("tests/controller",),
    "ps": ("tests/ps",),
}
"""Each package with the tests that should notice a change of it, and that need neither a cluster nor a minute."""

ACCEPTED = Path(__file__).parent / "accepted.toml"
WANTED = 0.9


Name = tuple[str, str, str, str]
"""What ``accepted.toml`` knows a mutant by: file, function, the text before and after."""


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    options = _options()
    reasons = accepted()
    with tempfile.TemporaryDirectory(prefix="gangline-mutants-") as directory:
        workshop = Workshop(Path(directory))
        return max(_package(workshop, package, options, reasons) for package in options.packages or PACKAGES)


def accepted() -> dict[Name, str]:
    """Return the survivors that are known, by what names them, with the reason of each."""
    entries = tomllib.loads(ACCEPTED.read_text()).get("survivor", [])
    return {(each["file"], each["function"], each["before"], each["after"]): each["reason"] for each in entries}


def name_of(file: str, mutant: Mutant) -> Name:
    """Return what names the mutant wherever its line moves."""
    return file, mutant.function, mutant.before, mutant.after


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"{', '.join(PACKAGES)}; default: all of them")
    parser.add_argument("--all", action="store_true", help="every mutant; a random sample otherwise")
    parser.add_argument("--sample", type=int, default=150, help="how many mutants of each package (150)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
    parser.add_argument("--file", default="", help="only files whose path contains this")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests for one mutant (20)")
    options = parser.parse_args()
    if unknown := set(options.packages) - set(PACKAGES):
        parser.error(f"no such package: {', '.join(sorted(unknown))}")
    return options


def _package(workshop: Workshop, package: str, options: argparse.Namespace, reasons: dict[Name, str]) -> int:
    begun = time.monotonic()
    reach = workshop.reach(package, PACKAGES[package])
    everything = [(file, mutant) for file in _files(package, options.file) for mutant in mutants(_text(file))]
    chosen = everything
    if not options.all and options.sample < len(everything):
        chosen = random.Random(options.seed).sample(everything, options.sample)
    survivors, unknown = 0, 0
    for file, mutant in chosen:
        if not _noticed(workshop, reach, file, mutant, options.budget):
            survivors += 1
            unknown += not _tell(file, mutant, reasons.get(name_of(file, mutant)))
    rate = 1 - survivors / len(chosen) if chosen else 1.0
    print(
        f"{package}: {len(chosen) - survivors} of {len(chosen)} mutants killed ({rate:.1%}; there are "
        f"{len(everything)}), {survivors - unknown} survivors accepted, {unknown} not, "
        f"{time.monotonic() - begun:.0f} s"
    )
    gone = {name for name in reasons if name[0].startswith(f"{package}/")} - {name_of(*each) for each in everything}
    for name in sorted(gone) if not options.file else ():
        print(f"no such mutant any more, take it out of {ACCEPTED.name}: {name}")
    return int(bool(unknown) or rate < WANTED)


def _files(package: str, part: str) -> list[str]:
    files = (str(path.relative_to(SOURCE)) for path in sorted((SOURCE / package).rglob("*.py")))
    return [file for file in files if part in file]


def _text(file: str) -> str:
    return (SOURCE / file).read_text()


def _noticed(workshop: Workshop, reach: Reach, file: str, mutant: Mutant, budget: float) -> bool:
    tests = reach.near(file, mutant.line, budget)
    seconds = sum(reach.seconds[test] for test in tests)
    return bool(tests) and workshop.notices(file, mutant.source, tests, seconds)


def _tell(file: str, mutant: Mutant, reason: str | None) -> bool:
    """Print a survivor; return whether it is an accepted one."""
    print(f"src/gangline/{file}:{mutant.line} in {mutant.function or 'the module'} survived")
    if reason is not None:
        print(f"  accepted: {reason}", flush=True)
        return True
    print(f"  before: {mutant.before}\n  after:  {mutant.after}")
    lines = difflib.unified_diff(_text(file).splitlines(), mutant.source.splitlines(), n=0, lineterm="")
    print("\n".join(f"  {line}" for line in list(lines)[3:]), flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
