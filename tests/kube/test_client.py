"""The verbs of the client against a scripted server."""

import json

import pytest
from aiohttp import web

from gangline.kube import (
    CONFIG_MAPS,
    NODES,
    PODS,
    AnswerError,
    ConflictError,
    GenericObject,
    KubeClient,
    NotFoundError,
    Object,
    Pod,
    Resource,
)

from .scripted_server import ScriptedServer, pod, pod_list

ALL = "/api/v1/pods"
WIDGETS = Resource(group="example.dev", version="v1", plural="widgets", kind="Widget", type=GenericObject)


async def test_list_joins_its_pages(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list(pod("a"), pod("b"), continue_token="next/=="))
    script.answer("GET", ALL, pod_list(pod("c")))
    answer = await client.list(PODS, page_size=2, labels={"app": "x"})
    assert [item.metadata.name for item in answer.items or ()] == ["a", "b", "c"]
    assert answer.metadata.resource_version == "10"
    first, second = script.requests
    assert dict(first.query) == {"limit": "2", "labelSelector": "app=x"}
    assert second.query["continue"] == "next/=="


async def test_list_begins_again_when_its_version_is_gone(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list(pod("a"), continue_token="next"))
    script.refuse("GET", ALL, status=410, reason="Expired")
    script.answer("GET", ALL, pod_list(pod("b"), pod("c")))
    answer = await client.list(PODS, page_size=1)
    assert [item.metadata.name for item in answer.items or ()] == ["b", "c"]
    assert "limit" not in script.requests[-1].query


async def test_empty_lists_may_be_null(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, {"metadata": {"resourceVersion": "3"}, "items": None})
    assert (await client.list(PODS)).items == []


@pytest.mark.parametrize(
    ("given", "inside", "want"),
    [
        pytest.param("given", "inside", "given", id="argument first"),
        pytest.param(None, "inside", "inside", id="then the object"),
        pytest.param(None, None, "default", id="then the client"),
    ],
)
async def test_a_new_object_goes_into_the_namespace_that_is_named_nearest(
    script: ScriptedServer, client: KubeClient, given: str | None, inside: str | None, want: str
) -> None:
    script.answer("POST", f"/api/v1/namespaces/{want}/configmaps", {"metadata": {"name": "x"}})
    metadata = {"name": "x"} | ({"namespace": inside} if inside else {})
    await client.create(CONFIG_MAPS, {"metadata": metadata}, namespace=given)


async def test_kinds_without_namespace_have_none(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("PATCH", "/api/v1/nodes/n", {"metadata": {"name": "n"}})
    await client.patch(NODES, "n", {"spec": {"unschedulable": True}}, namespace="ignored")
    assert script.requests[0].headers["Content-Type"] == "application/merge-patch+json"
    assert script.bodies[0] == {"spec": {"unschedulable": True}}


async def test_custom_resources_are_read_as_plain_json(script: ScriptedServer, client: KubeClient) -> None:
    path = "/apis/example.dev/v1/namespaces/default/widgets/w/status"
    script.answer("PATCH", path, {"metadata": {"name": "w"}, "spec": {"size": 3}, "status": {"ready": True}})
    body = {"metadata": {"name": "w"}, "status": {"ready": True}}
    widget = await client.apply(WIDGETS, body, subresource="status", force=True)
    assert (widget.spec, widget.status) == ({"size": 3}, {"ready": True})
    assert script.bodies[0]["kind"] == "Widget"


async def test_deletion_with_a_precondition_that_fails(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("DELETE", "/api/v1/namespaces/default/pods/p", status=409, reason="Conflict")
    with pytest.raises(ConflictError):
        await client.delete(PODS, "p", uid="other")
    assert script.bodies[0]["preconditions"] == {"uid": "other"}


async def test_apply_without_a_name_is_refused_here(client: KubeClient) -> None:
    with pytest.raises(ValueError, match=r"metadata\.name"):
        await client.apply(PODS, {"metadata": {}})


async def test_a_log_in_page_is_no_list(script: ScriptedServer, client: KubeClient) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>log in</html>", content_type="text/html")

    script.handle("GET", ALL, page)
    with pytest.raises(AnswerError, match="log in"):
        await client.list(PODS)


async def test_an_object_that_is_not_there_is_not_found(client: KubeClient) -> None:
    with pytest.raises(NotFoundError):
        await client.get(PODS, "nothing")


async def test_log_lines_are_kept_as_written(script: ScriptedServer, client: KubeClient) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in (b"one\n\ntw", b"o\n", b"x" * 100_000, b"\nlast"):
            await response.write(chunk)
        return response

    script.handle("GET", "/api/v1/namespaces/default/pods/p/log", handle)
    lines = [line async for line in client.logs("p", follow=True)]
    assert lines == [b"one", b"", b"two", b"x" * 100_000, b"last"]


def test_a_pod_decodes_to_what_a_scheduler_reads() -> None:
    document = {
        "metadata": {"name": "p", "creationTimestamp": "2030-01-01T00:00:00Z", "managedFields": [{"manager": "x"}]},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}, "command": ["ignored"]}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            },
        },
        "status": {
            "phase": "Failed",
            "podIP": "10.0.0.1",
            "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "restartCount": 1}
            ],
        },
    }
    decoded = PODS.decode(json.dumps(document).encode())
    assert isinstance(decoded, Pod)
    assert decoded.spec.containers[0].resources.requests == {"cpu": "500m"}
    assert decoded.spec.affinity is not None
    assert decoded.spec.affinity.node_affinity is not None
    assert decoded.spec.affinity.node_affinity.required is not None
    assert decoded.spec.affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].values == ("a",)
    terminated = decoded.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert (terminated.exit_code, terminated.reason, decoded.status.pod_ip) == (137, "OOMKilled", "10.0.0.1")
    assert decoded.metadata.creation_timestamp is not None


def test_structs_are_spelled_as_kubernetes_does() -> None:
    from msgspec import to_builtins

    assert to_builtins(Object(api_version="v1", kind="Pod")) == {"apiVersion": "v1", "kind": "Pod"}
