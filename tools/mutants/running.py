"""Try mutants: each in a process of its own that runs the tests near the changed line and stops at the first failure.

The mutants live in a copy of the package, so that nothing in the working tree changes and programs that a test starts
meet the mutant too. Processes are forked from one that has imported everything but the package, which spares most of
the start of pytest.
"""

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gangline"
NOT_HERE = "not kubernetes and not frameworks and not slow"
OPTIONS = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
PRELOADED = ("aiohttp.web", "click", "hypothesis.strategies", "msgspec", "numpy", "psycopg", "rich.table", "yaml")

START_SECONDS = 30.0
"""What a run may take before its first test, on a busy machine."""

SLOWNESS = 6.0
"""How many times longer than alone the tests may take before the mutant counts as stuck."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tests run which line of which file, and how long each takes."""

    lines: Mapping[str, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def near(self, file: str, line: int, budget: float) -> list[str]:
        """Return the tests for a line: those that run it, then others of its file, within so many seconds.

        A file that is only ever run by being imported (declarations) may be noticed by any test.
        """
        lines = self.lines.get(file, {})
        direct = list(lines.get(line, ()))
        others = {test for tests in lines.values() for test in tests} or set(self.seconds)
        others -= set(direct)
        chosen, spent = [], 0.0
        for test in (*sorted(direct, key=self.seconds.__getitem__), *sorted(others, key=self.seconds.__getitem__)):
            spent += self.seconds[test]
            if spent > budget and chosen:
                break
            chosen.append(test)
        return chosen


class _Recorder:
    """A pytest plugin that writes down what each test runs."""

    def __init__(self, measure: coverage.Coverage) -> None:
        self.seconds: dict[str, float] = {}
        self._measure = measure

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measure.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


class _Chooser:
    """A pytest plugin that runs the chosen tests only, one file after the other."""

    def __init__(self, chosen: Sequence[str]) -> None:
        files = {test: index for index, test in reversed(list(enumerate(_file(test) for test in chosen)))}
        self._order = {test: (files[_file(test)], index) for index, test in enumerate(chosen)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


class Workshop:
    """A copy of the package in a directory of its own, in which one file at a time is changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._copy = directory / "src" / "gangline"
        self._age = (SOURCE / "__init__.py").stat().st_mtime
        shutil.copytree(SOURCE, self._copy, ignore=shutil.ignore_patterns("__pycache__"))
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def reach(self, package: str, tests: Sequence[str]) -> Reach:
        """Run the tests of a package once, measured."""
        kept = self._directory / "reach.json"

        def measured() -> int:
            measure = coverage.Coverage(data_file=None, include=[f"{self._copy / package}/*"])
            recorder = _Recorder(measure)
            measure.start()
            result = pytest.main([*OPTIONS, "-m", NOT_HERE, *tests], plugins=[recorder])
            measure.stop()
            kept.write_text(json.dumps([self._lines(measure.get_data()), recorder.seconds]))
            return int(result)

        status, output = self._in_child(measured, seconds=1800)
        if status != 0:
            raise SystemExit(f"the tests do not pass unchanged:\n{output}")
        lines, seconds = json.loads(kept.read_text())
        by_number = {file: {int(line): found for line, found in each.items()} for file, each in lines.items()}
        return Reach(by_number, seconds)

    def notices(self, file: str, source: str, tests: Sequence[str], seconds: float) -> bool:
        """Return whether any of the tests fails, or never ends, when a file has another text."""
        original = (self._copy / file).read_text()
        try:
            self._write(file, source)
            status, _ = self._in_child(lambda: self._tested(tests), seconds=START_SECONDS + SLOWNESS * seconds)
        finally:
            self._write(file, original)
        return status != 0

    def _tested(self, tests: Sequence[str]) -> int:
        files = list(dict.fromkeys(_file(test) for test in tests))
        return int(pytest.main([*OPTIONS, *files], plugins=[_Chooser(tests)]))

    def _write(self, file: str, source: str) -> None:
        """Compiled files are told apart by size and second, so each text gets a second of its own."""
        self._age += 1
        (self._copy / file).write_text(source)
        os.utime(self._copy / file, (self._age, self._age))

    def _lines(self, data: coverage.CoverageData) -> dict[str, dict[int, list[str]]]:
        return {
            str(Path(file).relative_to(self._copy)): {
                line: [test for test in tests if test] for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }

    def _in_child(self, task: Callable[[], int], *, seconds: float) -> tuple[int, str]:
        """Run a task in a forked process; its status is none of a test's if it must be killed."""
        output = self._directory / "output.txt"
        child = os.fork()
        if child == 0:
            os._exit(self._child(task, output))
        handle = os.pidfd_open(child)
        try:
            select.select([handle], [], [], seconds)
        finally:
            os.close(handle)
            for kill in (os.killpg, os.kill):  # what it started goes too; the second for one that has no group yet
                with contextlib.suppress(ProcessLookupError):
                    kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output.read_text(errors="replace")

    def _child(self, task: Callable[[], int], output: Path) -> int:
        try:
            os.setsid()
            with output.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.chdir(ROOT)
            os.environ["PYTHONPATH"] = str(self._copy.parent)
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(self._directory / "hypothesis")
            sys.path.insert(0, str(self._copy.parent))
            return task()
        except BaseException:  # noqa: BLE001 -- a child of a fork must not go on as its parent
            return 99


def _file(test: str) -> str:
    return test.split("::", 1)[0]
