"""Commands for a cluster, as far as they need none: what is refused, and what would be applied."""

from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Here

KUBECONFIG = """
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: vision}}]
current-context: here
"""


@pytest.fixture
def with_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here) -> Here:
    """A user whose kubeconfig names a cluster that is not there."""
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return here


@pytest.mark.parametrize(
    ("words", "want_code", "want_text"),
    [
        pytest.param(("--context", "there", "list"), 2, "no context 'there' (it has: here)", id="unknown context"),
        pytest.param(("--context", "here", "list"), 6, "context 'here' does not answer", id="absent cluster"),
        pytest.param(("--context", "here", "list"), 6, "hint: 'kubectl --context here version'", id="what to do"),
        pytest.param(
            ("--context", "here", "--server", "unix:/x", "list"), 2, "two different services", id="two services"
        ),
        pytest.param(("--context", "here", "attach", "x"), 6, "context 'here' does not answer", id="attach"),
        pytest.param(("--context", "here", "install"), 6, "kubectl --context here version", id="install"),
        pytest.param(("install", "--context", "there"), 2, "no context 'there'", id="install elsewhere"),
        pytest.param(("controller", "run", "--listen", "nowhere"), 2, "is not an address", id="controller nowhere"),
        pytest.param(("controller", "run", "--in-cluster"), 1, "not inside a pod", id="controller outside"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    with_context: Here, words: tuple[str, ...], want_code: int, want_text: str
) -> None:
    code, _, said = with_context(*words)
    assert (code, want_text in said) == (want_code, True), said


def test_the_setting_chooses_a_context_and_an_empty_option_the_local_service(
    with_context: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANGLINE_CONTEXT", "here")
    assert with_context("list")[0] == 6
    assert with_context("--context", "", "list")[0] == 0


def test_a_job_for_a_context_belongs_to_its_namespace(with_context: Here) -> None:
    code, out, _ = with_context("--context", "here", "submit", "--image", "x", "--dry-run", "--", "true")
    assert code == 0
    job = yaml.safe_load(out)
    assert job["metadata"]["tenant"] == "vision"
    assert "env" not in job["spec"]


def test_the_doctor_looks_at_the_cluster_of_a_context(with_context: Here) -> None:
    code, out, _ = with_context("--context", "here", "doctor")
    assert code == 1
    assert "ok    context: here: https://127.0.0.1:1, namespace vision" in out
    assert "FAIL  cluster: the cluster of context 'here' does not answer at https://127.0.0.1:1" in out
    assert "cgroups" not in out
    assert "FAIL  context: --context: the configuration has no context" in with_context("--context", "no", "doctor")[1]


def test_install_prints_what_it_would_apply(with_context: Here) -> None:
    code, out, _ = with_context(
        "install", "--dry-run", "--image", "acme/gangline:1", "--namespace", "ml", "--replicas", "3"
    )
    assert code == 0
    objects = list(yaml.safe_load_all(out))
    assert [objects[0]["kind"], objects[-1]["kind"]] == ["Namespace", "Deployment"]
    deployment = objects[-1]
    assert (deployment["metadata"]["namespace"], deployment["spec"]["replicas"]) == ("ml", 3)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "acme/gangline:1"
    assert container["command"][:3] == ["gangline", "controller", "run"]
