"""Renders the Helm chart from the same objects that ``gangline install`` applies.

    python deploy/render_chart.py [--check]

The chart has no templates of its own: what an administrator decides (image, namespace, replicas, what becomes of
Kubeflow's jobs, whether InferenceServices are served, whether there is a service for a team) is put in as values,
everything else is as the installation says. ``--check`` fails if the chart in the tree is out of date.
"""

import argparse
import json
import sys
from difflib import SequenceMatcher
from pathlib import Path

import yaml

from gangline import __version__
from gangline.compose.installing import ClusterInstallation, Kubeflow
from gangline.engines.kubernetes.names import DOMAIN

CHART = Path(__file__).parent / "chart"
IMAGE = "gangline"
"""Where the image is found is for the administrator to say; deploy/Dockerfile builds it."""
_IMAGE_MARK = "image-to-be-filled-in"
_NAMESPACE_MARK = "namespace-to-be-filled-in"
_REPLICAS_MARK = 987_654_321


_KUBEFLOW_RUNS = f'{{{{- if ne .Values.kubeflow "{Kubeflow.LEAVE}" }}}}\n'
_KUBEFLOW_STRICT = f'{{{{- if eq .Values.kubeflow "{Kubeflow.STRICT}" }}}}\n'
_KSERVE = "{{- if .Values.kserve }}\n"
_API = "{{- if .Values.api }}\n"
_END = "{{- end }}\n"
_KEEP = {"helm.sh/resource-policy": "keep"}
"""Helm deletes what it made of a template. With the definition of a kind all jobs of that kind would go."""


def render() -> dict[str, str]:
    """Return every file of the chart by its path."""
    plain, run, strict = (_templates(choice) for choice in (Kubeflow.LEAVE, Kubeflow.RUN, Kubeflow.STRICT))
    files = _descriptions()
    for path, text in run.items():
        adopted = _merged(text, strict[path], _KUBEFLOW_STRICT)
        files[path] = _merged(plain[path], adopted, _KUBEFLOW_RUNS) if path in plain else _whole(adopted)
    return files


def _templates(kubeflow: Kubeflow) -> dict[str, str]:
    """Return the objects of one choice about Kubeflow, with either choice about KServe and the service of a team."""
    with_kserve = _either(*(_objects(kubeflow, kserve=kserve) for kserve in (False, True)), _KSERVE)
    api = _objects(kubeflow, kserve=False, api=True)
    added = {path: text for path, text in api.items() if path not in with_kserve}
    return with_kserve | {path: f"{_API}{text}{_END}" for path, text in added.items()}


def _either(without: dict[str, str], with_: dict[str, str], condition: str) -> dict[str, str]:
    return {
        path: _merged(without[path], text, condition) if path in without else f"{condition}{text}{_END}"
        for path, text in with_.items()
    }


def _descriptions() -> dict[str, str]:
    """Return what Helm knows of the chart: its name, its values, and which values it takes."""
    values = {"image": f"{IMAGE}:{__version__}", "replicas": 2, "kubeflow": str(Kubeflow.LEAVE)}
    values |= {"kserve": False, "api": False}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "image": {"type": "string", "minLength": 1, "description": "where the image of deploy/Dockerfile is found"},
            "replicas": {"type": "integer", "minimum": 1, "description": "controllers, of which one leads"},
            "kubeflow": {"enum": [str(choice) for choice in Kubeflow], "description": Kubeflow.__doc__},
            "kserve": {"type": "boolean", "description": "serve InferenceServices, in place of KServe"},
            "api": {"type": "boolean", "description": "add a service for people outside of the cluster"},
            "global": {"type": "object", "description": "given by Helm where the chart is part of another"},
        },
    }
    return {
        "Chart.yaml": _yaml(
            {
                "apiVersion": "v2",
                "name": "gangline",
                "description": "Trains deep-learning models on many machines.",
                "type": "application",
                "version": __version__,
                "appVersion": __version__,
            }
        ),
        "values.yaml": _yaml(values),
        "values.schema.json": json.dumps(schema, indent=2) + "\n",
    }


def _objects(kubeflow: Kubeflow, *, kserve: bool, api: bool = False) -> dict[str, str]:
    """Return the objects of one installation by the path of their file."""
    wanted = ClusterInstallation(
        context="",
        image=_IMAGE_MARK,
        namespace=_NAMESPACE_MARK,
        replicas=_REPLICAS_MARK,
        kubeflow=kubeflow,
        kserve=kserve,
        api=api,
    )
    files = {}
    for body in wanted.objects():
        kind, name = body["kind"], body["metadata"]["name"]
        if kind == "Namespace":
            continue  # Helm makes the release's namespace
        folder = "templates"
        if kind == "CustomResourceDefinition" and name.endswith(f".{DOMAIN}"):
            # Helm installs what lies in crds/ first and never deletes it: jobs outlive an uninstalled release.
            folder = "crds"
        elif kind == "CustomResourceDefinition":
            # What lies in crds/ cannot depend on a value.
            body["metadata"]["annotations"] = _KEEP
        files[f"{folder}/{kind.lower()}-{name.replace('.', '-')}.yaml"] = _filled(_yaml(body))
    return files


def _whole(text: str) -> str:
    return f"{_KUBEFLOW_RUNS}{text}{_END}"


def _merged(without: str, with_: str, condition: str) -> str:
    """Return one text that is the second where the condition holds and the first elsewhere; it may only add lines."""
    before, after = without.splitlines(keepends=True), with_.splitlines(keepends=True)
    merged = []
    for change, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if change == "equal":
            merged += before[first:last]
        elif change == "insert":
            merged += [condition, *after[start:end], _END]
        else:
            sys.exit(f"a value takes lines away: {before[first:last]}")
    return "".join(merged)


def _yaml(body: object) -> str:
    # By way of JSON, so that equal parts are written out each time and not as references.
    return yaml.safe_dump(json.loads(json.dumps(body)), sort_keys=False, width=120)


def _filled(text: str) -> str:
    return (
        text.replace(_IMAGE_MARK, "{{ .Values.image | quote }}")
        .replace(_NAMESPACE_MARK, "{{ .Release.Namespace }}")
        .replace(str(_REPLICAS_MARK), "{{ .Values.replicas }}")
    )


def present() -> dict[str, str]:
    """Return every file of the chart in the tree."""
    return {
        str(file.relative_to(CHART)): file.read_text(encoding="utf-8") for file in CHART.rglob("*") if file.is_file()
    }


def main() -> None:
    """Write the chart, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    wanted = render()
    if parser.parse_args().check:
        if present() != wanted:
            sys.exit("deploy/chart is out of date: run python deploy/render_chart.py")
        return
    for path in present().keys() - wanted.keys():
        (CHART / path).unlink()
    for path, text in wanted.items():
        (CHART / path).parent.mkdir(parents=True, exist_ok=True)
        (CHART / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
