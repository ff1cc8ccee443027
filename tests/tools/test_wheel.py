"""What is installed: the package and nothing that only its own tests need."""

import ast
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.release.building import build_packages

OUTSIDE = {"bench", "tests", "tools"}
TESTING = {
    "__init__",
    "builders",
    "client",
    "client_suite",
    "engine_suite",
    "scripted_engine",
    "store_suite",
    "sweep_client_suite",
    "record_store_suite",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a wheel that was just built, by name."""
    built, _ = build_packages(tmp_path_factory.mktemp("dist"))
    with ZipFile(built) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_package_alone(wheel: dict[str, bytes]) -> None:
    (metadata,) = {name.partition("/")[0] for name in wheel} - {"gangline"}
    assert metadata.endswith(".dist-info")


def test_testing_brings_builders_a_client_and_the_contract_suites(wheel: dict[str, bytes]) -> None:
    found = {Path(name).relative_to("gangline/testing") for name in wheel if name.startswith("gangline/testing/")}
    assert found == {Path(f"{name}.py") for name in TESTING}


def test_nothing_that_is_installed_imports_what_is_not(wheel: dict[str, bytes]) -> None:
    wrong = {name for name, source in wheel.items() if name.endswith(".py") and OUTSIDE & set(imported(source))}
    assert wrong == set()


def imported(source: bytes) -> list[str]:
    """The packages a module imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return [
        name.partition(".")[0]
        for name in (*plain, *(node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)))
    ]
