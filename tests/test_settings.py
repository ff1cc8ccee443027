"""Defaults, the file and the environment, in that order; wrong values are refused by name."""

from pathlib import Path

import pytest

from gangline.errors import InvalidInputError
from gangline.settings import NAMES, Settings, told


def load(tmp_path: Path, text: str = "", **environment: str) -> Settings:
    (tmp_path / "config.yaml").write_text(text)
    return Settings.load({"HOME": str(tmp_path), "GANGLINE_CONFIG": str(tmp_path / "config.yaml"), **environment})


def test_defaults_are_private_to_the_user_and_to_the_home(tmp_path: Path) -> None:
    one, other = load(tmp_path), load(tmp_path, GANGLINE_HOME="/elsewhere")
    assert one.home == tmp_path / ".local/share/gangline"
    assert one.runtime_directory != other.runtime_directory
    assert one.nodes == 1


def test_a_tilde_is_the_home_of_the_user_in_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load(tmp_path, "home: ~/jobs\nruntime_directory: ~/run\n")
    assert (settings.home, settings.runtime_directory) == (tmp_path / "jobs", tmp_path / "run")


def test_a_user_without_a_home_is_told_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # as for a number that no user has
    with pytest.raises(InvalidInputError, match=r"no home directory.*HOME"):
        Settings.load({})


def test_the_environment_overrules_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, "nodes: 3\nlog_files: 2\n", GANGLINE_NODES="4")
    assert (settings.nodes, settings.log_files) == (4, 2)
    assert settings.sources["nodes"] == "environment"
    assert settings.sources["log_files"].endswith("config.yaml")


def test_a_users_own_sizes_are_read_like_resources(tmp_path: Path) -> None:
    settings = load(tmp_path, "sizes:\n  huge: {cpu: 64, memory: 512Gi, gpu: 8}\n")
    assert settings.sizes["huge"].memory_mib == 512 * 1024
    assert settings.sizes["huge"].gpus == 8


def test_the_rules_of_the_scheduler_are_chosen_by_name(tmp_path: Path) -> None:
    text = "scheduling: {pack: fragmentation, victim_cost: 'my.rules:Cheap', reclaim: false}"
    settings = load(tmp_path, text)
    assert settings.scheduling == {"pack": "fragmentation", "victim_cost": "my.rules:Cheap", "reclaim": False}
    assert load(tmp_path).scheduling == {}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("node: 3", "did you mean 'nodes'", id="unknown name"),
        pytest.param("nodes: zero", "nodes.*whole number", id="not a number"),
        pytest.param("nodes: ²", "nodes.*whole number", id="a digit that is not a number"),
        pytest.param("nodes: 99999999999", "nodes.*from 1 to 1000000", id="more than anybody has"),
        pytest.param("kubernetes_port: 70000", "kubernetes_port.*to 65535", id="no port"),
        pytest.param("nodes: true", "nodes.*whole number", id="a boolean is not a number"),
        pytest.param("[1]", "mapping of settings", id="not a mapping"),
        pytest.param("nodes: [", "not valid YAML", id="broken"),
        pytest.param("sizes: {huge: {cpus: 1}}", "sizes.huge", id="wrong size"),
        pytest.param("scheduling: pack", "scheduling.*mapping of rules", id="scheduling is not a mapping"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        load(tmp_path, text)


def test_what_is_told_of_settings_has_no_secrets(tmp_path: Path) -> None:
    text = "smtp: {host: mail.example.org, password: opensesame}\nprices: {gpu: 2.5}\n"
    database = "postgresql://ada:open@sesame@db.example.org/jobs?password=sesame&sslmode=require"
    rows = {name: (text, source) for name, text, source in told(load(tmp_path, text, GANGLINE_DATABASE=database))}
    assert tuple(rows) == NAMES
    assert rows["database"] == ("postgresql://…@db.example.org/jobs?password=…&sslmode=require", "environment")
    assert rows["smtp"][0] == "host, password"
    assert rows["prices"][0] == "gpu: 2.5"
    assert rows["nodes"] == ("1", "default")
    assert "sesame" not in str(rows)
