"""``gangline config``: settings are shown, written and taken back, and a file that nothing accepts can be mended."""

import json

import pytest

from tests.cli.conftest import Here, Shell


def out(here: Here, *arguments: str) -> str:
    code, printed, complaint = here(*arguments)
    assert code == 0, complaint
    return printed


def test_settings_are_shown_set_and_unset(fresh_here: Here, fresh_shell: Shell) -> None:
    assert out(fresh_here, "config", "path") == f"{fresh_shell.settings.config_file}\n"
    assert out(fresh_here, "config", "get", "nodes") == "1\n"
    out(fresh_here, "config", "set", "nodes", "3")
    out(fresh_here, "config", "set", "sizes", "{big: {cpu: 8, memory: 64Gi}}")
    view = json.loads(out(fresh_here, "config", "view", "-o", "json"))
    assert (view["nodes"], view["sizes"]["big"]["cpu_millis"]) == (3, 8000)
    assert str(fresh_shell.settings.config_file) in out(fresh_here, "config", "view")
    request = json.loads(out(fresh_here, "submit", "--dry-run", "-o", "json", "--size", "big", "--", "true"))
    assert request["spec"]["roles"]["worker"]["resources"]["cpu"] == 8
    out(fresh_here, "config", "unset", "nodes")
    assert out(fresh_here, "config", "get", "nodes") == "1\n"


def test_a_setting_that_a_running_service_has_read_already_is_told_of(fresh_here: Here, fresh_shell: Shell) -> None:
    assert fresh_here("config", "set", "nodes", "2")[2] == ""
    fresh_shell.out("server", "start")
    assert "until 'gangline server stop'" in fresh_here("config", "set", "nodes", "3")[2]
    assert "until 'gangline server stop'" in fresh_here("config", "unset", "nodes")[2]
    assert fresh_here("config", "set", "tenant", "team")[2] == "", "commands read it themselves"


def test_values_are_shown_as_a_file_has_them_and_nothing_as_nothing(fresh_here: Here) -> None:
    out(fresh_here, "config", "set", "scheduling", "{pack: fragmentation}")
    assert out(fresh_here, "config", "get", "scheduling") == '{"pack": "fragmentation"}\n'
    assert out(fresh_here, "config", "get", "kubernetes_port") == "\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("nodes", "none", id="a word for a number"),
        pytest.param("nodes", "0", id="none"),
        pytest.param("nodes", "\N{SUPERSCRIPT TWO}", id="a digit that is not a number"),
        pytest.param("kubernetes_port", "65536", id="no port"),
        pytest.param("sizes", "big", id="no mapping"),
        pytest.param("sizes", "[", id="no YAML"),
        pytest.param("home", "", id="nothing"),
    ],
)
def test_a_wrong_setting_is_refused_and_not_written(
    fresh_here: Here, fresh_shell: Shell, name: str, value: str
) -> None:
    code, _, complaint = fresh_here("config", "set", name, value)
    assert (code, name in complaint) == (2, True)
    assert not fresh_shell.settings.config_file.exists()


def test_a_text_of_digits_stays_text(fresh_here: Here) -> None:
    out(fresh_here, "config", "set", "tenant", "2024")
    assert out(fresh_here, "config", "get", "tenant") == "2024\n"


@pytest.mark.parametrize("line", ["newer: 1", "nodes: many"], ids=["a name", "a value"])
def test_what_no_command_accepts_can_be_taken_out_of_the_file(fresh_here: Here, fresh_shell: Shell, line: str) -> None:
    fresh_shell.settings.config_file.write_text(f"{line}\ntenant: vision\n")
    code, _, complaint = fresh_here("config", "view")
    assert (code, "hint: 'gangline config set NAME VALUE' or 'gangline config unset NAME'" in complaint) == (2, True)
    assert out(fresh_here, "config", "path")
    out(fresh_here, "config", "unset", line.partition(":")[0])
    assert out(fresh_here, "config", "get", "tenant") == "vision\n"


def test_a_file_that_cannot_be_read_is_named(fresh_here: Here, fresh_shell: Shell) -> None:
    fresh_shell.settings.config_file.mkdir()
    code, _, complaint = fresh_here("config", "view")
    assert (code, complaint) == (
        2,
        f"error: {fresh_shell.settings.config_file}: the file cannot be read: Is a directory\n",
    )


def test_a_link_to_a_file_elsewhere_stays_a_link(fresh_here: Here, fresh_shell: Shell) -> None:
    elsewhere = fresh_shell.settings.config_file.with_name("kept-elsewhere.yaml")
    fresh_shell.settings.config_file.symlink_to(elsewhere)
    out(fresh_here, "config", "set", "nodes", "3")
    assert fresh_shell.settings.config_file.is_symlink()
    assert elsewhere.read_text() == "nodes: 3\n"
