"""Requests as values: paths, queries and bodies."""

import json
from typing import Any

import pytest

from gangline.kube import NODES, PODS, Metadata, Object, Propagation, Request, requests


def test_paths_of_core_and_grouped_kinds() -> None:
    assert PODS.path(namespace="a", name="b", subresource="log") == "/api/v1/namespaces/a/pods/b/log"
    assert PODS.path() == "/api/v1/pods"
    assert NODES.path(namespace="ignored", name="n") == "/api/v1/nodes/n"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert PODS.path(namespace="a/b", name="../secrets") == "/api/v1/namespaces/a%2Fb/pods/..%2Fsecrets"


def test_body_names_its_kind_whether_plain_or_struct() -> None:
    plain = requests.body_of(PODS, {"metadata": {"name": "x"}})
    struct = requests.body_of(PODS, Object(metadata=Metadata(name="x")))
    assert plain == struct == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}


def test_apply_is_a_patch_owned_by_a_manager() -> None:
    request = requests.write(
        requests.Write.APPLY,
        PODS,
        {"metadata": {"name": "x"}},
        namespace="a",
        name="x",
        field_manager="me",
        force=True,
        dry_run=True,
    )
    assert request.method == "PATCH"
    assert request.content_type == "application/apply-patch+yaml"
    assert dict(request.query) == {"fieldManager": "me", "force": "true", "dryRun": "All"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, {}, id="plain"),
        pytest.param({"uid": "u"}, {"preconditions": {"uid": "u"}}, id="only this very object"),
        pytest.param({"resource_version": "7"}, {"preconditions": {"resourceVersion": "7"}}, id="only this version"),
        pytest.param({"grace_seconds": 0}, {"gracePeriodSeconds": 0}, id="at once"),
        pytest.param(
            {"propagation": Propagation.FOREGROUND}, {"propagationPolicy": "Foreground"}, id="with what it owns"
        ),
    ],
)
def test_delete_says_its_conditions(given: dict[str, Any], want: dict[str, Any]) -> None:
    request = requests.delete(PODS, "x", namespace="a", **given)
    assert request.body is not None
    assert json.loads(request.body) == {"apiVersion": "v1", "kind": "DeleteOptions", **want}


def test_binding_names_node_and_pod() -> None:
    request = requests.bind("p", namespace="a", node="n", uid="u")
    assert request.path == "/api/v1/namespaces/a/pods/p/binding"
    assert request.body is not None
    body = json.loads(request.body)
    assert (body["kind"], body["metadata"], body["target"]["name"]) == ("Binding", {"name": "p", "uid": "u"}, "n")


def test_only_what_may_be_sent_twice_is_idempotent() -> None:
    idempotent = {method: Request(method=method, path="/").idempotent for method in ("GET", "PUT", "DELETE", "POST")}
    assert idempotent == {"GET": True, "PUT": True, "DELETE": True, "POST": False}


def test_selector_spells_mappings_and_passes_strings() -> None:
    assert requests.selector({"b": "2", "a": "1"}) == "a=1,b=2"
    assert requests.selector("a in (1,2)") == "a in (1,2)"
    assert requests.selector(None) is None


def test_logs_keep_a_tail_of_zero_lines() -> None:
    assert dict(requests.logs("p", namespace="a", tail_lines=0, follow=True).query) == {
        "follow": "true",
        "tailLines": "0",
    }
