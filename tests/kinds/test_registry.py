"""A kind of somebody's own that cannot be loaded hurts nobody but its own users."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gangline import operations
from gangline.errors import InvalidInputError
from gangline.kinds import registry
from gangline.model import DEFAULT_TENANT
from gangline.testing.builders import START
from tests.kinds.support import write_package
from tests.kinds.test_adding_a_kind import Installed
from tests.operations.fakes import Office, at

MODULE = "gangline_repeat.py"

OURS = [
    "clustertrainingruntime",
    "experiment",
    "inferenceservice",
    "model",
    "notification",
    "pipeline",
    "queue",
    "runexperiment",
    "schedule",
    "secret",
    "service",
    "store",
    "sweep",
    "template",
    "templateversion",
    "trainingruntime",
    "trainjob",
    "volume",
    "workspace",
]


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Put the package of the page onto the path, with one thing in it replaced."""

    def join(old: str, new: str) -> None:
        module = tmp_path / MODULE
        if not module.exists():
            write_package(tmp_path)
        module.write_text(module.read_text().replace(old, new))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "gangline_repeat", raising=False)
        _forget()

    yield join
    _forget()


def _forget() -> None:
    registry.registered.cache_clear()
    registry._loaded.cache_clear()


CASES = [
    pytest.param("REPEAT: Kind", "raise RuntimeError('boom')\nREPEAT: Kind", "RuntimeError: boom", id="raises"),
    pytest.param("REPEAT: Kind", "raise SystemExit(3)\nREPEAT: Kind", "SystemExit: 3", id="exits"),
    pytest.param("REPEAT: Kind[RepeatSpec, RepeatStatus, Repeat]", "OTHER", "no attribute 'REPEAT'", id="has none"),
    pytest.param("REPEAT: Kind", "REPEAT = 7\nOTHER: Kind", "it is not a Kind", id="another value"),
    pytest.param('name="repeat"', 'name="sweep"', "it calls itself 'sweep'", id="another name"),
    pytest.param('plural="repeats"', 'plural="sweeps"', "its plural 'sweeps' is that of 'sweep'", id="plural of ours"),
    pytest.param('plural="repeats"', 'plural="jobs"', "its plural 'jobs' is that of 'job'", id="plural of jobs"),
]


@pytest.mark.parametrize(("old", "new", "want"), CASES)
def test_a_kind_that_cannot_be_loaded_is_left_out_and_says_why(
    joined: Callable[[str, str], None], old: str, new: str, want: str
) -> None:
    joined(old, new)
    assert [kind.name for kind in registry.all_kinds()] == OURS
    assert list(registry.unloadable()) == ["repeat"]
    assert want in registry.unloadable()["repeat"]
    with pytest.raises(InvalidInputError, match="the kind 'repeat' of gangline_repeat:REPEAT cannot be loaded"):
        registry.kind_named("repeat")


def test_a_kind_that_can_be_loaded_is_not_among_the_others(joined: Callable[[str, str], None]) -> None:
    joined("", "")
    assert [kind.name for kind in registry.all_kinds()] == sorted([*OURS, "repeat"])
    assert not registry.unloadable()


async def test_no_code_is_forgotten_while_a_kind_cannot_be_loaded(
    joined: Callable[[str, str], None], tmp_path: Path
) -> None:
    context = Office(tmp_path / "code").context()
    archive = tmp_path / "code" / f"{'0' * 64}.tar.gz"
    archive.parent.mkdir()
    archive.touch()
    os.utime(archive, (START - 10_000, START - 10_000))
    joined("REPEAT: Kind", "raise RuntimeError('boom')\nREPEAT: Kind")
    await operations.prune(context, DEFAULT_TENANT, finished_before=at())
    assert archive.exists()
    joined("raise RuntimeError('boom')", "")
    await operations.prune(context, DEFAULT_TENANT, finished_before=at())
    assert not archive.exists()


def test_the_service_and_the_other_commands_go_on(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("kind")
    installed = Installed(place)
    (place / MODULE).write_text("raise RuntimeError('boom')\n")
    try:
        assert "(cannot be loaded: RuntimeError: boom)" in installed.gangline("--help")
        assert "is COMPLETED" in installed.gangline("submit", "--no-code", "--wait", "--", "true")
        said = installed.gangline("repeat", "list", code=2)
        assert "the kind 'repeat' of gangline_repeat:REPEAT cannot be loaded: RuntimeError: boom" in said
        assert "FAIL  kinds: repeat: RuntimeError: boom" in installed.gangline("doctor", code=1)
        log = (place / "gangline_home" / "service.log").read_text()
        assert "the kind 'repeat' is left out; it cannot be loaded: RuntimeError: boom" in log
    finally:
        installed.gangline("server", "stop")
