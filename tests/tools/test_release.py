"""What may be released, and how the image's recipe is read."""

from pathlib import Path

import pytest

from tools.changelog import ChangelogError
from tools.release.__main__ import check_tree
from tools.release.building import DOCKERFILE, ROOT, ReleaseError, run
from tools.release.trying import enumerate_stages, interpreters


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("## 0.2.0 (2031-05-01)\n")
    run("git", "init", "--quiet", cwd=tmp_path)
    run("git", "add", "--all", cwd=tmp_path)
    run("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x", cwd=tmp_path)
    return tmp_path


def test_a_commit_with_a_dated_entry_and_no_fragments_may_be_released(project: Path) -> None:
    check_tree(project, "0.2.0", draft=False)


def test_a_tree_that_differs_from_its_commit_is_released_as_a_draft_only(project: Path) -> None:
    (project / "new.py").touch()
    with pytest.raises(ReleaseError, match=r"new\.py"):
        check_tree(project, "0.2.0", draft=False)
    check_tree(project, "0.2.0", draft=True)


def test_fragments_that_are_not_folded_keep_a_version_back(project: Path) -> None:
    (project / "changelog.d" / "a.fixed.md").write_text("One.")
    with pytest.raises(ChangelogError, match="make changelog VERSION=0"):
        check_tree(project, "0.2.0", draft=False)


def test_package_and_project_must_agree_on_the_version(project: Path) -> None:
    with pytest.raises(ReleaseError, match=r"says 0\.2\.0, the package says 0\.3\.0"):
        check_tree(project, "0.3.0", draft=True)


def test_the_recipe_of_the_image_takes_files_that_exist() -> None:
    steps = list(enumerate_stages(DOCKERFILE.read_text()))
    copied = [rest.split()[:-1] for stage, (verb, rest) in steps if stage == 1 and verb == "COPY"]
    assert copied
    assert all((ROOT / source).exists() for sources in copied for source in sources)
    assert [rest for stage, (verb, rest) in steps if stage == 2 and verb == "USER"] == ["1000:1000"]


@pytest.mark.parametrize("needed", ["obstore", "optuna", "cmaes", "grpcio"])
def test_the_image_has_what_searches_and_pushed_metrics_need(needed: str) -> None:
    locked = (ROOT / "requirements" / "image.lock").read_text().splitlines()
    assert any(line.startswith(f"{needed}==") for line in locked)


def test_a_failing_command_is_told_with_its_output() -> None:
    with pytest.raises(ReleaseError, match=r"(?s)sh -c .* ended with 3:\nout\nerr"):
        run("sh", "-c", "echo out; echo err >&2; exit 3")


def test_interpreters_are_programs_and_not_their_wrappers() -> None:
    for python in interpreters():
        assert run(python, "-c", "import os, sys; print(os.path.realpath(sys.executable))").strip() == str(python)
