"""What a pod template cannot start without."""

import json
from typing import Any

import pytest

from gangline.engines.kubernetes.node_rules.references import Reference, references_by_role
from gangline.testing.builders import make_role, make_spec

MAP, SECRET = Reference("ConfigMap", "settings"), Reference("Secret", "token")


def named_by(**spec: Any) -> tuple[Reference, ...]:
    template = json.dumps({"spec": spec})
    return references_by_role(make_spec(roles=(make_role(pod_template_json=template),))).get("worker", ())


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def variable(**source: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "env": [{"name": "V", "valueFrom": source}, {"name": "W", "value": "1"}]}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(volume(configMap={"name": "settings"}), (MAP,), id="volume of a ConfigMap"),
        pytest.param(volume(secret={"secretName": "token"}), (SECRET,), id="volume of a Secret"),
        pytest.param(
            volume(projected={"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "token"}}]}),
            (MAP, SECRET),
            id="projected volume",
        ),
        pytest.param(variable(configMapKeyRef={"name": "settings", "key": "k"}), (MAP,), id="variable"),
        pytest.param(variable(secretKeyRef={"name": "token", "key": "k"}), (SECRET,), id="secret variable"),
        pytest.param(
            {"initContainers": [{"envFrom": [{"secretRef": {"name": "token"}}]}]}, (SECRET,), id="all variables"
        ),
        pytest.param(volume(configMap={"name": "settings", "optional": True}), (), id="optional volume"),
        pytest.param(
            variable(secretKeyRef={"name": "token", "key": "k", "optional": True}), (), id="optional variable"
        ),
        pytest.param({"imagePullSecrets": [{"name": "token"}]}, (), id="pull secret"),
        pytest.param(variable(fieldRef={"fieldPath": "metadata.name"}), (), id="nothing of the kind"),
    ],
)
def test_what_a_template_needs_is_found(spec: dict[str, Any], want: tuple[Reference, ...]) -> None:
    assert named_by(**spec) == want


def test_each_role_has_its_own() -> None:
    template = json.dumps({"spec": volume(configMap={"name": "settings"})})
    roles = (make_role("chief"), make_role("worker", pod_template_json=template))
    assert references_by_role(make_spec(roles=roles)) == {"worker": (MAP,)}
