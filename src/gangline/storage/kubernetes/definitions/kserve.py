"""The custom resource of KServe, ``serving.kserve.io/v1beta1``: InferenceService. Pure.

Its spec is as open as a pod's; what cannot be served is said in its conditions.
"""

from typing import Any

from gangline.dialects.kserve import API_VERSION, KIND
from gangline.storage.kubernetes.definitions.kubeflow import CATEGORY

Schema = dict[str, Any]

_GROUP, _, _VERSION = API_VERSION.partition("/")
_PLURAL = "inferenceservices"
_LONGEST_NAME = 40
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COLUMNS = (
    ("URL", "string", ".status.url"),
    ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
    ("Prev", "integer", ".status.components.predictor.traffic[?(@.tag=='prev')].percent"),
    ("Latest", "integer", ".status.components.predictor.traffic[?(@.latestRevision==true)].percent"),
    ("LatestReadyRevision", "string", ".status.components.predictor.latestReadyRevision"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def kserve_definitions() -> tuple[Schema, ...]:
    """Return the one definition, marked as ours to serve."""
    named = {
        "rule": f"size(self.metadata.name) <= {_LONGEST_NAME}",
        "message": f"metadata.name: at most {_LONGEST_NAME} letters",
    }
    root = {
        "type": "object",
        "description": "InferenceService: a predictor of KServe's, served by Gangline.",
        "required": ["spec"],
        "properties": {
            "spec": {**_OPEN, "description": "The predictor.", "required": ["predictor"], "properties": {
                "predictor": {**_OPEN, "description": "A model or a container, and how it is scaled."},
            }},
            "status": {**_OPEN, "description": "How it is doing; written by Gangline."},
        },
        "x-kubernetes-validations": [named],
    }  # fmt: skip
    version = {
        "name": _VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in _COLUMNS],
        "schema": {"openAPIV3Schema": root},
    }
    names = {"kind": KIND, "listKind": f"{KIND}List", "plural": _PLURAL, "singular": "inferenceservice"}
    return (
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{_PLURAL}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "scope": "Namespaced",
                "names": {**names, "shortNames": ["isvc"], "categories": [CATEGORY]},
                "conversion": {"strategy": "None"},
                "versions": [version],
            },
        },
    )
