"""The chart through Helm itself: what it renders is what ``gangline install`` applies, whatever the values."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.compose.installing import ClusterInstallation, Kubeflow
from tests.integration.kubernetes.helm import CHART, Helm, settings

NAMESPACE = "somewhere"
KEPT = {"helm.sh/resource-policy": "keep"}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "image": {"image": "example.org/gangline:2"},
    "replicas": {"replicas": 3},
    "kubeflow=run": {"kubeflow": Kubeflow.RUN},
    "kubeflow=strict": {"kubeflow": Kubeflow.STRICT},
    "kserve": {"kserve": True},
    "api": {"api": True},
    "all": {"image": "acme/gangline:1", "replicas": 1, "kubeflow": Kubeflow.STRICT, "kserve": True, "api": True},
}


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


def named(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects), "two objects of one name"
    return found


def test_the_cases_cover_every_value_of_the_chart() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    described = schema["properties"].keys() - {"global"}  # Helm's own, for charts within charts
    assert described == yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")).keys()
    assert described == {name for values in CASES.values() for name in values}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_lint_has_nothing_to_say(helm: Helm, values: dict[str, Any]) -> None:
    said = helm.run("lint", "--strict", "--quiet", str(CHART), *settings(**values))
    assert said.split() == []


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_template_gives_what_the_installer_applies(helm: Helm, values: dict[str, Any]) -> None:
    said = helm.run("template", "gangline", str(CHART), "--include-crds", "--namespace", NAMESPACE, *settings(**values))
    rendered = named([document for document in yaml.safe_load_all(said) if document is not None])
    wanted = named(ClusterInstallation(context="any", namespace=NAMESPACE, **values).objects())
    del wanted["Namespace", NAMESPACE]  # Helm's to make
    for (kind, name), body in wanted.items():
        if kind == "CustomResourceDefinition" and name.endswith((".kubeflow.org", ".kserve.io")):
            body["metadata"]["annotations"] = KEPT
    assert rendered == wanted


@pytest.mark.parametrize(
    ("value", "want_named"),
    [
        pytest.param("kubeflow=maybe", "kubeflow", id="a choice that there is not"),
        pytest.param("replicas=0", "replicas", id="no controller at all"),
        pytest.param("replicas=two", "replicas", id="a number in words"),
        pytest.param("image=", "image", id="no image"),
        pytest.param("imgae=acme/gangline:1", "imgae", id="a value that there is not"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, value: str, want_named: str) -> None:
    done = helm.try_to("template", "gangline", str(CHART), "--set", value)
    assert done.returncode != 0
    assert want_named in done.stderr
