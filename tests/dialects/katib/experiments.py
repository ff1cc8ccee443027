"""An Experiment to change in tests."""

import copy
from typing import Any

from gangline.dialects import document
from gangline.dialects.katib import Experiment, read_experiment

_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "beside", "image": "any", "command": ["true"]},
                    {"name": "main", "image": "any", "command": ["train", "--rate=${trialParameters.rate}"]},
                ],
            }
        },
    },
}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1beta1",
    "kind": "Experiment",
    "metadata": {"name": "mnist"},
    "spec": {
        "objective": {"type": "minimize", "objectiveMetricName": "loss"},
        "algorithm": {"algorithmName": "random"},
        "parallelTrialCount": 2,
        "maxTrialCount": 4,
        "maxFailedTrialCount": 2,
        "parameters": [
            {"name": "rate", "parameterType": "double", "feasibleSpace": {"min": "0.1", "max": "0.9"}},
        ],
        "trialTemplate": {
            "primaryContainerName": "main",
            "trialParameters": [{"name": "rate", "reference": "rate"}],
            "trialSpec": _JOB,
        },
    },
}


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the document with another value at a path, such as ``spec.parameters.0.name``; None removes it."""
    made = copy.deepcopy(DOCUMENT)
    node: Any = made
    *way, last = path.split(".")
    for name in way:
        node = node[int(name)] if isinstance(node, list) else node.setdefault(name, {})
    if value is None:
        del node[last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return made


def make_experiment(path: str | None = None, value: object = None) -> Experiment:
    """Read the document, changed at a path."""
    return read_experiment(document.plain(DOCUMENT if path is None else changed(path, value)))
