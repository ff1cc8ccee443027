"""Fragments become an entry of the changelog, once, and wrong ones are refused by name."""

from pathlib import Path

import pytest

from tools.changelog import ChangelogError, fold, fragments, released

HEAD = "# Changelog\n\nWhat users notice.\n\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("How to.\n")
    (tmp_path / "CHANGELOG.md").write_text(HEAD)
    return tmp_path


def write(project: Path, **texts: str) -> None:
    for name, text in texts.items():
        (project / "changelog.d" / f"{name.replace('_', '.')}.md").write_text(text)


def test_fragments_are_folded_by_kind_below_the_head_and_deleted(project: Path) -> None:
    write(project, b_fixed="One.\n", a_fixed="Two,\nin two lines.\n", z_added="Three.")
    assert fold(project, "0.2.0", "2031-05-01") == "0.2.0: 3 fragments folded in"
    first = "## 0.2.0 (2031-05-01)\n\n### Added\n\n- Three.\n\n### Fixed\n\n- Two,\n  in two lines.\n- One.\n"
    assert (project / "CHANGELOG.md").read_text() == HEAD + first
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]
    write(project, c_removed="Four.")
    fold(project, "0.3.0", "2031-06-01")
    second = "## 0.3.0 (2031-06-01)\n\n### Removed\n\n- Four.\n\n"
    assert (project / "CHANGELOG.md").read_text() == HEAD + second + first


def test_an_entry_written_by_hand_gets_its_date_and_the_fragments_go(project: Path) -> None:
    (project / "CHANGELOG.md").write_text(f"{HEAD}## 0.1.0 (unreleased)\n\nThe first release.\n")
    write(project, a_fixed="A repair of what nobody had yet.")
    assert "1 fragments dropped" in fold(project, "0.1.0", "2031-05-01")
    assert (project / "CHANGELOG.md").read_text() == f"{HEAD}## 0.1.0 (2031-05-01)\n\nThe first release.\n"
    released(project, "0.1.0")


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        pytest.param("quota.fix.md", "Text.", "expected TOPIC.KIND.md", id="kind"),
        pytest.param("Quota.fixed.md", "Text.", "expected TOPIC.KIND.md", id="capitals"),
        pytest.param("quota.fixed.txt", "Text.", "expected TOPIC.KIND.md", id="ending"),
        pytest.param("quota.fixed.md", " \n", "no text", id="empty"),
        pytest.param("quota.fixed.md", "- Text.", "write sentences", id="list"),
    ],
)
def test_a_wrong_fragment_is_refused_by_name_and_nothing_changes(
    project: Path, name: str, text: str, want: str
) -> None:
    (project / "changelog.d" / name).write_text(text)
    with pytest.raises(ChangelogError, match=f"{name}: .*{want}"):
        fold(project, "0.2.0", "2031-05-01")
    assert (project / "CHANGELOG.md").read_text() == HEAD
    assert (project / "changelog.d" / name).exists()


def test_a_version_is_released_once_and_with_something_to_tell(project: Path) -> None:
    with pytest.raises(ChangelogError, match="there are no fragments"):
        fold(project, "0.2.0", "2031-05-01")
    write(project, a_fixed="One.")
    with pytest.raises(ChangelogError, match="is not a version"):
        fold(project, "v2", "2031-05-01")
    with pytest.raises(ChangelogError, match="1 fragments are left"):
        released(project, "0.2.0")
    fold(project, "0.2.0", "2031-05-01")
    released(project, "0.2.0")
    with pytest.raises(ChangelogError, match=r"no dated entry of 0\.3\.0"):
        released(project, "0.3.0")
    write(project, b_fixed="Two.")
    with pytest.raises(ChangelogError, match="was released on 2031-05-01"):
        fold(project, "0.2.0", "2031-05-02")
    assert fragments(project) == {"b.fixed.md": "Two."}
