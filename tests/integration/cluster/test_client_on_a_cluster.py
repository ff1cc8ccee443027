"""Every act of ``KubeClient`` against a real API server and real kubelets."""

import asyncio
from contextlib import aclosing

import aiohttp
import pytest

from gangline.kube import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NODES,
    PODS,
    AlreadyExistsError,
    Applied,
    ConfigMap,
    ConflictError,
    Deleted,
    GenericObject,
    InvalidError,
    KubeClient,
    Metadata,
    NotFoundError,
    Resource,
    Synced,
)

from .conftest import ended, make_pod, object_where, pod_where, running

pytestmark = pytest.mark.kubernetes


def note(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Metadata(name=name, labels={"kind": "note"}), data=data)


async def test_create_read_patch_replace_delete(client: KubeClient) -> None:
    created = await client.create(CONFIG_MAPS, note("n", a="1"))
    assert created.metadata.uid
    with pytest.raises(AlreadyExistsError):
        await client.create(CONFIG_MAPS, note("n"))
    patched = await client.patch(CONFIG_MAPS, "n", {"data": {"b": "2", "a": None}})
    assert patched.data == {"b": "2"}
    with pytest.raises(ConflictError):
        await client.replace(CONFIG_MAPS, created)
    assert (await client.get(CONFIG_MAPS, "n")).data == {"b": "2"}
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAPS, "n", uid="another")
    await client.delete(CONFIG_MAPS, "n", uid=created.metadata.uid)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "n")


async def test_apply_shares_an_object_between_managers(client: KubeClient) -> None:
    await client.apply(CONFIG_MAPS, note("n", a="1"), field_manager="one")
    both = await client.apply(CONFIG_MAPS, note("n", b="2"), field_manager="two")
    assert both.data == {"a": "1", "b": "2"}
    with pytest.raises(ConflictError) as caught:
        await client.apply(CONFIG_MAPS, note("n", a="3"), field_manager="two")
    assert ".data.a" in [cause.field for cause in caught.value.causes]
    forced = await client.apply(CONFIG_MAPS, note("n", a="3"), field_manager="two", force=True)
    assert forced.data == {"a": "3"}  # b is no longer named by its only manager


async def test_dry_run_changes_nothing(client: KubeClient) -> None:
    assert (await client.create(CONFIG_MAPS, note("n"), dry_run=True)).metadata.name == "n"
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "n")


async def test_invalid_objects_name_their_fields(client: KubeClient) -> None:
    with pytest.raises(InvalidError) as caught:
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    assert "spec.containers[0].image" in caught.value.fields


async def test_list_by_pages_and_labels(client: KubeClient) -> None:
    await asyncio.gather(*(client.create(CONFIG_MAPS, note(f"n{number:02}")) for number in range(25)))
    selected = await client.list(CONFIG_MAPS, namespace=client.namespace, labels={"kind": "note"}, page_size=10)
    assert [item.metadata.name for item in selected.items or ()] == [f"n{number:02}" for number in range(25)]
    assert selected.metadata.resource_version
    await client.delete_all(CONFIG_MAPS, labels={"kind": "note"})
    left = await client.list(CONFIG_MAPS, namespace=client.namespace, labels={"kind": "note"})
    assert left.items == []


async def test_reflect_tells_everything_once(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, note("before"))
    seen: list[str] = []
    reflected = client.reflect(CONFIG_MAPS, namespace=client.namespace, labels={"kind": "note"})
    async with asyncio.timeout(30), aclosing(reflected) as changes:
        async for change in changes:
            match change:
                case Synced():
                    await client.create(CONFIG_MAPS, note("during"))
                case Applied(item):
                    seen.append(f"+{item.metadata.name}")
                    if item.metadata.name == "during":
                        await client.delete(CONFIG_MAPS, "before")
                case Deleted(item):
                    seen.append(f"-{item.metadata.name}")
                    break
    assert seen == ["+before", "+during", "-before"]


async def test_custom_resource_with_status(client: KubeClient) -> None:
    group = f"{client.namespace}.example.dev"
    widgets = Resource(group=group, version="v1", plural="widgets", kind="Widget", type=GenericObject)
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": any_object, "status": any_object}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": f"widgets.{group}"}, "spec": spec}
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition)
    try:
        async with asyncio.timeout(30):
            await object_where(client, CUSTOM_RESOURCE_DEFINITIONS, f"widgets.{group}", _served)
            await client.create(widgets, {"metadata": {"name": "w"}, "spec": {"size": 3}, "status": {"lost": True}})
            widget = await client.patch(widgets, "w", {"status": {"ready": True}}, subresource="status")
        assert (widget.spec, widget.status) == ({"size": 3}, {"ready": True})
    finally:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"widgets.{group}")


def _served(definition: GenericObject) -> bool:
    conditions = definition.status.get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


async def test_binding_gives_a_waiting_pod_its_node(client: KubeClient) -> None:
    node = ((await client.list(NODES)).items or [])[0].metadata.name
    pod = await client.create(PODS, make_pod("waits", "true", schedulerName="nobody"))
    with pytest.raises(ConflictError):
        await client.bind("waits", node, uid="another")
    await client.bind("waits", node, uid=pod.metadata.uid)
    async with asyncio.timeout(30):
        done = await pod_where(client, "waits", ended)
    assert (done.spec.node_name, done.status.phase) == (node, "Succeeded")
    with pytest.raises(ConflictError):
        await client.bind("waits", node)


async def test_failed_container_tells_its_exit_code(client: KubeClient) -> None:
    await client.create(PODS, make_pod("fails", "sh", "-c", "exit 7"))
    async with asyncio.timeout(30):
        done = await pod_where(client, "fails", ended)
    terminated = done.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert (done.status.phase, terminated.exit_code) == ("Failed", 7)


async def test_logs_are_followed_to_the_end(client: KubeClient) -> None:
    await client.create(PODS, make_pod("talks", "sh", "-c", "echo one; echo; sleep 1; echo two"))
    async with asyncio.timeout(30):
        await pod_where(client, "talks", lambda pod: running(pod) or ended(pod))
        assert [line async for line in client.logs("talks", follow=True)] == [b"one", b"", b"two"]
        assert [line async for line in client.logs("talks", tail_lines=1)] == [b"two"]


async def test_commands_and_forwarded_ports(client: KubeClient) -> None:
    serve = "mkdir /tmp/www && echo hello >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"
    await client.create(PODS, make_pod("serves", "sh", "-c", serve))
    async with asyncio.timeout(30):
        await pod_where(client, "serves", running)
        result = await client.execute("serves", ["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"given" * 20_000)
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"given" * 20_000, b"bad\n")
        assert (await client.execute("serves", ["id", "-u"])).stdout == b"1000\n"
        async with client.port_forward("serves", 8080) as port, aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"http://127.0.0.1:{port}/index.html") as response:
                    assert await response.text() == "hello\n"
