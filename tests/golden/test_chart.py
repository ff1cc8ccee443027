"""The Helm chart in the tree is the one that the installation's objects give, whatever the values."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.compose.installing import ClusterInstallation, Kubeflow

DEPLOY = Path(__file__).parents[2] / "deploy"
CONDITION = re.compile(r'\{\{- if (eq|ne) \.Values\.kubeflow "(\w+)" \}\}\n')
KEPT = {"helm.sh/resource-policy": "keep"}


def filled(text: str, kubeflow: str) -> str:
    """Write a template with its values put in, as far as the chart uses Helm's language."""
    shown, kept = [True], []
    for line in text.splitlines(keepends=True):
        if found := CONDITION.fullmatch(line):
            shown.append((found[1] == "eq") == (found[2] == kubeflow))
        elif line == "{{- end }}\n":
            shown.pop()
        elif all(shown):
            kept.append(line)
    whole = "".join(kept).replace("{{ .Values.image | quote }}", '"acme/gangline:1"')
    return whole.replace("{{ .Values.replicas }}", "3").replace("{{ .Release.Namespace }}", "somewhere")


def named(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def test_chart_is_up_to_date() -> None:
    script = runpy.run_path(str(DEPLOY / "render_chart.py"))
    assert script["present"]() == script["render"](), "run python deploy/render_chart.py"


@pytest.mark.parametrize("kubeflow", list(Kubeflow))
def test_chart_gives_what_the_installer_applies(kubeflow: Kubeflow) -> None:
    files = [*DEPLOY.glob("chart/crds/*.yaml"), *DEPLOY.glob("chart/templates/*.yaml")]
    documents = [yaml.safe_load(filled(file.read_text(encoding="utf-8"), kubeflow)) for file in files]
    rendered = named([document for document in documents if document is not None])
    installed = ClusterInstallation(
        context="any", image="acme/gangline:1", namespace="somewhere", replicas=3, kubeflow=kubeflow
    )
    wanted = named(installed.objects())
    del wanted["Namespace", "somewhere"]  # Helm's to make
    for (kind, name), body in wanted.items():
        if kind == "CustomResourceDefinition" and name.endswith(".kubeflow.org"):
            body["metadata"]["annotations"] = KEPT
    assert rendered == wanted
