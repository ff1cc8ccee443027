"""Renders the Helm chart from the same objects that ``gangline install`` applies.

    python deploy/render_chart.py [--check]

The chart has no templates of its own: the three things an administrator decides (image, namespace, replicas) are put
in as values, everything else is as the installation says. ``--check`` fails if the chart in the tree is out of date.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml

from gangline import __version__
from gangline.engines.kubernetes import Installation, installation_objects
from gangline.storage.kubernetes import DEFINITIONS

CHART = Path(__file__).parent / "chart"
IMAGE = "gangline"
"""Where the image is found is for the administrator to say; deploy/Dockerfile builds it."""
_IMAGE_MARK = "image-to-be-filled-in"
_NAMESPACE_MARK = "namespace-to-be-filled-in"
_REPLICAS_MARK = 987_654_321


def render() -> dict[str, str]:
    """Return every file of the chart by its path."""
    wanted = Installation(
        image=_IMAGE_MARK, namespace=_NAMESPACE_MARK, replicas=_REPLICAS_MARK, definitions=DEFINITIONS
    )
    files = {
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
        "values.yaml": _yaml({"image": f"{IMAGE}:{__version__}", "replicas": 2}),
    }
    for body in installation_objects(wanted):
        kind, name = body["kind"], body["metadata"]["name"]
        if kind == "Namespace":
            continue  # Helm makes the release's namespace
        # Helm installs what lies in crds/ first and never deletes it: jobs outlive an uninstalled release.
        folder = "crds" if kind == "CustomResourceDefinition" else "templates"
        files[f"{folder}/{kind.lower()}-{name.replace('.', '-')}.yaml"] = _filled(_yaml(body))
    return files


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
