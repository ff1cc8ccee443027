"""Whatever is put in place of whatever in a valid file, the answer is a job or a refusal, never a crash."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.dialects import read, read_plain
from gangline.dialects.native import job_from_plain, job_to_plain
from gangline.errors import InvalidInputError

POD = {
    "spec": {
        "containers": [
            {
                "name": "tensorflow",
                "image": "i",
                "command": ["x"],
                "args": ["y"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"name": "tfjob-port", "containerPort": 1}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}},
            }
        ],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a"}],
    }
}
VALID: dict[str, dict[str, Any]] = {
    "ours": {
        "apiVersion": "gangline.dev/v1",
        "kind": "Job",
        "metadata": {"name": "a", "labels": {"b": "c"}, "priority": 3},
        "spec": {
            "framework": "pytorch",
            "env": {"A": "b"},
            "roles": {"chief": {"command": ["x"], "resources": {"cpu": 1}}, "worker": 3},
            "data": {"inputs": [{"from": "a", "to": "b"}]},
            "policy": {"deadline": "1h", "restart": "gang"},
            "placement": {"gpu_type": "h200", "tolerations": [{"key": "a"}]},
        },
    },
    "tfjob": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {
            "runPolicy": {"backoffLimit": 1, "schedulingPolicy": {"queue": "q", "minAvailable": 1}},
            "tfReplicaSpecs": {"Worker": {"replicas": 1, "restartPolicy": "OnFailure", "template": POD}},
        },
    },
    "old tfjob": {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "a"},
        "spec": {
            "terminationPolicy": {"chief": {"replicaName": "WORKER", "replicaIndex": 0}},
            "replicaSpecs": [{"tfReplicaType": "WORKER", "tfPort": 1, "template": POD}],
        },
    },
    "manifest": {
        "name": "a",
        "memory": "1Gb",
        "data_stores": [{"training_data": {"container": "a"}, "connection": {"path": "/x"}}],
        "framework": {"name": "caffe", "version": "1", "command": "x"},
    },
}

scalars = st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, object]] = []
    if isinstance(data, dict):
        children = list(data.items())
    elif isinstance(data, list):
        children = list(enumerate(data))
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def replaced(data: dict[str, Any], path: tuple[str | int, ...], value: object) -> object:
    if not path:
        return value
    changed = copy.deepcopy(data)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", VALID)
@settings(max_examples=150, deadline=None)
@given(choice=st.data())
def test_a_broken_value_is_read_or_refused(name: str, choice: st.DataObject) -> None:
    data = VALID[name]
    broken = replaced(data, choice.draw(st.sampled_from(places(data))), choice.draw(anything))
    try:
        translations = read_plain(broken)
    except InvalidInputError:
        return
    for translation in translations:
        assert job_from_plain(job_to_plain(translation.spec)) == translation.spec


@pytest.mark.parametrize("name", VALID)
def test_the_unbroken_files_are_valid(name: str) -> None:
    assert (
        read(yaml.safe_dump(VALID[name], sort_keys=False)) == read(json.dumps(VALID[name])) == read_plain(VALID[name])
    )


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        read(text)
