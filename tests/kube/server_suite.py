"""What Gangline counts on from an API server, as tests: the real one passes them, and so must the one in memory.

Subclass it with a fixture ``client`` whose namespace is the test's own and in which our custom resources are defined.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from gangline.kube import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    AlreadyExistsError,
    Applied,
    ConflictError,
    Deleted,
    ForbiddenError,
    InvalidError,
    KubeClient,
    NotFoundError,
    Pod,
    Synced,
)
from gangline.storage.kubernetes import JOBS
from tools.cluster import BUSYBOX

PATIENCE_SECONDS = 60.0


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data}


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"command": ["true"], **spec}}


def pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    fixed = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [container]}
    return {"metadata": {"name": name}, "spec": {**fixed, **spec}}


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110  # the server sends no event
            await asyncio.sleep(0.02)


class ServerSuite:
    @pytest.fixture
    async def client(self) -> KubeClient:
        raise NotImplementedError

    # Writing

    async def test_a_name_is_taken_once_or_made_up(self, client: KubeClient) -> None:
        first = await client.create(CONFIG_MAPS, config_map("a"))
        with pytest.raises(AlreadyExistsError):
            await client.create(CONFIG_MAPS, config_map("a"))
        made = [await client.create(CONFIG_MAPS, {"metadata": {"generateName": "b-"}}) for _ in range(2)]
        assert len({first.metadata.uid, *(item.metadata.uid for item in made)}) == 3
        assert len({item.metadata.name for item in made}) == 2
        assert all(item.metadata.name.startswith("b-") for item in made)
        with pytest.raises(NotFoundError):
            await client.create(CONFIG_MAPS, config_map("a"), namespace="no-such-namespace")

    async def test_a_write_that_is_based_on_an_old_version_is_refused(self, client: KubeClient) -> None:
        old = (await client.create(CONFIG_MAPS, config_map("a", x="1"))).metadata
        new = (await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2", "y": "3"}})).metadata
        assert new.resource_version != old.resource_version
        stale = {"name": "a", "resourceVersion": old.resource_version}
        with pytest.raises(ConflictError):
            await client.replace(CONFIG_MAPS, {"metadata": stale, "data": {}})
        with pytest.raises(ConflictError):
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"resourceVersion": old.resource_version}, "data": None})
        with pytest.raises(InvalidError):
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "somebody-else"}})
        with pytest.raises(ConflictError):
            await client.replace(CONFIG_MAPS, {"metadata": {"name": "a", "uid": "somebody-else"}})
        assert (await client.get(CONFIG_MAPS, "a")).data == {"x": "2", "y": "3"}
        again = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2", "y": None}})
        assert again.data == {"x": "2"}
        same = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}})
        assert same.metadata.resource_version == again.metadata.resource_version, "nothing was changed"

    async def test_a_dry_run_keeps_nothing(self, client: KubeClient) -> None:
        await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)
        with pytest.raises(NotFoundError):
            await client.get(CONFIG_MAPS, "a")
        await client.create(CONFIG_MAPS, config_map("a", x="1"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, dry_run=True)
        await client.apply(CONFIG_MAPS, config_map("a", x="3"), force=True, dry_run=True)
        assert (await client.get(CONFIG_MAPS, "a")).data == {"x": "1"}

    async def test_applying_takes_back_what_is_no_longer_named_and_leaves_what_others_own(
        self, client: KubeClient
    ) -> None:
        await client.apply(CONFIG_MAPS, config_map("a", mine="1", ours="1"), field_manager="one")
        await client.apply(CONFIG_MAPS, config_map("a", theirs="1", ours="1"), field_manager="two")
        with pytest.raises(ConflictError) as refused:
            await client.apply(CONFIG_MAPS, config_map("a", theirs="2"), field_manager="one")
        assert any("theirs" in cause.field for cause in refused.value.causes)
        left = await client.apply(CONFIG_MAPS, config_map("a"), field_manager="one")
        assert left.data == {"theirs": "1", "ours": "1"}
        taken = await client.apply(CONFIG_MAPS, config_map("a", theirs="2"), field_manager="one", force=True)
        assert taken.data == {"theirs": "2", "ours": "1"}

    # Custom resources

    async def test_a_status_is_written_at_a_path_of_its_own(self, client: KubeClient) -> None:
        made = await client.create(JOBS, {**job("a"), "status": {"phase": "QUEUED"}})
        assert (made.status, made.metadata.generation) == ({}, 1)
        told = await client.patch(JOBS, "a", {"status": {"phase": "QUEUED"}, "spec": None}, subresource="status")
        assert (told.status, told.spec["command"], told.metadata.generation) == ({"phase": "QUEUED"}, ["true"], 1)
        changed = await client.patch(JOBS, "a", {"status": {"phase": "FAILED"}, "spec": {"size": "1-v100"}})
        assert (changed.status, changed.metadata.generation) == ({"phase": "QUEUED"}, 2)
        labelled = await client.patch(JOBS, "a", {"metadata": {"labels": {"team": "vision"}}})
        assert labelled.metadata.generation == 2
        body = {"metadata": {"name": "a"}, "status": {"phase": "FAILED"}}
        with pytest.raises(InvalidError, match="resourceVersion"):
            await client.replace(JOBS, {**job("a"), **body}, subresource="status")
        body["metadata"]["resourceVersion"] = labelled.metadata.resource_version
        replaced = await client.replace(JOBS, {**job("a"), **body}, subresource="status")
        assert (replaced.status, replaced.spec["size"]) == ({"phase": "FAILED"}, "1-v100")

    async def test_a_schema_fills_in_leaves_out_and_refuses(self, client: KubeClient) -> None:
        made = await client.create(JOBS, job("a", unknown=1, size=None))
        assert made.spec == {"command": ["true"], "queue": "default"}
        wrong = {"replicas": 0, "framework": "abacus", "roles": {"worker": {"port": "no"}}, "policy": {"grace": "1x"}}
        with pytest.raises(InvalidError) as refused:
            await client.create(JOBS, job("b", **wrong))
        fields = {"spec.replicas", "spec.framework", "spec.roles.worker.port", "spec.policy.grace"}
        assert fields <= set(refused.value.fields)
        with pytest.raises(InvalidError):
            await client.create(JOBS, {"metadata": {"name": "b"}, "spec": {}})
        with pytest.raises(InvalidError):
            await client.patch(JOBS, "a", {"spec": {"replicas": 0}})

    # Reading and watching

    async def test_a_list_in_pages_is_one_moment_of_the_collection(self, client: KubeClient) -> None:
        for number in range(5):
            label = {"odd": str(number % 2)}
            await client.create(CONFIG_MAPS, config_map(f"item-{number}", labels=label))
        query = {"limit": "2", "labelSelector": "odd"}
        path = CONFIG_MAPS.path(namespace=client.namespace)
        page = CONFIG_MAPS.decode_list(await client.raw(path, query=query))
        await client.delete(CONFIG_MAPS, "item-3")
        names = [item.metadata.name for item in page.items or ()]
        versions = {page.metadata.resource_version}
        while token := page.metadata.continue_token:
            page = CONFIG_MAPS.decode_list(await client.raw(path, query={**query, "continue": token}))
            names += [item.metadata.name for item in page.items or ()]
            versions.add(page.metadata.resource_version)
        assert names == [f"item-{number}" for number in range(5)]
        assert len(versions) == 1
        listed = await client.list(CONFIG_MAPS, namespace=client.namespace, labels="odd", page_size=2)
        assert [item.metadata.name for item in listed.items or ()] == ["item-0", "item-1", "item-2", "item-4"]

    @pytest.mark.parametrize(
        ("labels", "fields", "want"),
        [
            ("team=red", None, {"a"}),
            ("team in (red, blue)", None, {"a", "b"}),
            ("team notin (red)", None, {"b", "c"}),
            ("team!=red", None, {"b", "c"}),
            ("!team", None, {"c"}),
            ("team,team!=blue", None, {"a"}),
            (None, "metadata.name=b", {"b"}),
            (None, "metadata.name!=b", {"a", "c"}),
        ],
    )
    async def test_selectors_choose(
        self, client: KubeClient, labels: str | None, fields: str | None, want: set[str]
    ) -> None:
        for name, team in (("a", "red"), ("b", "blue"), ("c", "")):
            await client.create(CONFIG_MAPS, config_map(name, labels={"team": team} if team else None))
        found = await client.list(CONFIG_MAPS, namespace=client.namespace, labels=labels, fields=fields)
        # A real cluster puts a certificate into every namespace.
        assert {item.metadata.name for item in found.items or ()} - {"kube-root-ca.crt"} == want

    async def test_a_watch_tells_all_that_comes_and_goes(self, client: KubeClient) -> None:
        await client.create(CONFIG_MAPS, config_map("before", labels={"seen": "1"}))
        watch = client.reflect(CONFIG_MAPS, namespace=client.namespace, labels={"seen": "1"})
        async with asyncio.timeout(PATIENCE_SECONDS), aclosing(watch) as changes:
            assert (await anext(changes)).object.metadata.name == "before"
            assert isinstance(await anext(changes), Synced)
            await client.create(CONFIG_MAPS, config_map("other"))
            await client.create(CONFIG_MAPS, config_map("after", labels={"seen": "1"}))
            await client.patch(CONFIG_MAPS, "before", {"data": {"x": "1"}})
            await client.patch(CONFIG_MAPS, "after", {"metadata": {"labels": {"seen": None}}})
            await client.patch(CONFIG_MAPS, "other", {"metadata": {"labels": {"seen": "1"}}})
            await client.delete(CONFIG_MAPS, "before")
            told = [(type(change), change.object.metadata.name) for change in [await anext(changes) for _ in range(5)]]
        assert told == [
            (Applied, "after"),
            (Applied, "before"),
            (Deleted, "after"),
            (Applied, "other"),
            (Deleted, "before"),
        ]

    # Deleting

    async def test_a_finalizer_holds_a_deletion_back(self, client: KubeClient) -> None:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(CONFIG_MAPS, body)
        await client.delete(CONFIG_MAPS, "a")
        held = await client.get(CONFIG_MAPS, "a")
        assert held.metadata.deletion_timestamp is not None
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}})
        with pytest.raises(NotFoundError):
            await client.get(CONFIG_MAPS, "a")

    async def test_a_deletion_may_name_the_very_object(self, client: KubeClient) -> None:
        made = (await client.create(CONFIG_MAPS, config_map("a"))).metadata
        with pytest.raises(ConflictError):
            await client.delete(CONFIG_MAPS, "a", uid="somebody-else")
        with pytest.raises(ConflictError):
            await client.delete(CONFIG_MAPS, "a", resource_version="1")
        await client.delete(CONFIG_MAPS, "a", uid=made.uid, resource_version=made.resource_version)
        with pytest.raises(NotFoundError):
            await client.delete(CONFIG_MAPS, "a")

    async def test_everything_that_labels_select_is_deleted_at_once(self, client: KubeClient) -> None:
        for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
            await client.create(CONFIG_MAPS, config_map(name, labels={"team": team}))
        await client.delete_all(CONFIG_MAPS, labels={"team": "red"})
        found = await client.list(CONFIG_MAPS, namespace=client.namespace, labels="team")
        assert [item.metadata.name for item in found.items or ()] == ["b"]

    async def test_what_an_object_owns_goes_with_it(self, client: KubeClient) -> None:
        owners = [(await client.create(CONFIG_MAPS, config_map(name))).metadata for name in ("one", "two")]
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid} for owner in owners
        ]
        for name, owned_by in (("of-one", references[:1]), ("of-both", references)):
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": owned_by}})
        await client.delete(CONFIG_MAPS, "one")
        await eventually(lambda: self._is_gone(client, "of-one"))
        assert (await client.get(CONFIG_MAPS, "of-both")).metadata.deletion_timestamp is None
        await client.delete(CONFIG_MAPS, "two")
        await eventually(lambda: self._is_gone(client, "of-both"))

    async def test_a_namespace_goes_with_all_that_is_in_it(self, client: KubeClient) -> None:
        name = f"{client.namespace}-more"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        body = config_map("held")
        body["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(CONFIG_MAPS, body, namespace=name)
        await client.delete(NAMESPACES, name)
        with pytest.raises(ForbiddenError):
            await client.create(CONFIG_MAPS, config_map("late"), namespace=name)

        async def is_marked() -> bool:
            held = await client.get(CONFIG_MAPS, "held", namespace=name)
            return held.metadata.deletion_timestamp is not None

        await eventually(is_marked)
        assert (await client.get(NAMESPACES, name)).status["phase"] == "Terminating"
        await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=name)

        async def is_gone() -> bool:
            found = await client.list(NAMESPACES, fields={"metadata.name": name})
            return not found.items

        await eventually(is_gone)

    # Pods

    async def test_a_pod_runs_once_it_has_a_node(self, client: KubeClient) -> None:
        await client.create(PODS, pod("a", "echo one; echo two >&2; exit 3"))
        node = await self._node(client)
        await client.bind("a", node)
        with pytest.raises(ConflictError):
            await client.bind("a", node)
        ended = await self._until(client, "a", lambda found: found.status.phase == "Failed")
        terminated = ended.status.container_statuses[0].state.terminated
        assert terminated is not None
        assert (ended.spec.node_name, terminated.exit_code) == (node, 3)
        # The two outputs are read side by side: their order is not told.
        assert {line async for line in client.logs("a")} == {b"one", b"two"}
        assert len([line async for line in client.logs("a", tail_lines=1)]) == 1
        stamped = {line.partition(b"Z ")[2] async for line in client.logs("a", timestamps=True)}
        assert stamped == {b"one", b"two"}
        running = await client.list(PODS, namespace=client.namespace, fields={"spec.nodeName": node})
        assert [found.metadata.name for found in running.items or ()] == ["a"]

    async def test_a_pod_that_is_deleted_may_end_in_its_own_way(self, client: KubeClient) -> None:
        await self._begin(client, "trap 'exit 7' TERM; echo ready; sleep 1000 & wait")
        assert await self._ends_of_deleted(client, grace_seconds=30) == {7}

    async def test_a_pod_that_does_not_end_is_killed(self, client: KubeClient) -> None:
        await self._begin(client, "trap '' TERM; echo ready; while true; do sleep 0.05; done")
        assert await self._ends_of_deleted(client, grace_seconds=1) == {137}

    # Within

    async def _node(self, client: KubeClient) -> str:
        return next(node.metadata.name for node in (await client.list(NODES)).items or () if not node.spec.taints)

    async def _begin(self, client: KubeClient, script: str) -> None:
        """Run a pod ``a``, and wait until it has come as far as to say so."""
        await client.create(PODS, pod("a", script, nodeName=await self._node(client)))
        await self._until(client, "a", lambda found: found.status.phase == "Running")
        async with asyncio.timeout(PATIENCE_SECONDS), aclosing(client.logs("a", follow=True)) as lines:
            assert await anext(lines) == b"ready"

    async def _ends_of_deleted(self, client: KubeClient, *, grace_seconds: int) -> set[int]:
        """Delete the pod ``a``, and return the exit codes that it shows until it is gone.

        Its last status tells how it ended. Its log need not: a kubelet may close it before the last line was sent.
        """
        watch = client.reflect(PODS, namespace=client.namespace, fields={"metadata.name": "a"})
        codes: set[int] = set()
        async with asyncio.timeout(PATIENCE_SECONDS), aclosing(watch) as changes:
            assert isinstance(await anext(changes), Applied)
            await client.delete(PODS, "a", grace_seconds=grace_seconds)
            assert (await client.get(PODS, "a")).metadata.deletion_timestamp is not None
            async for change in changes:
                if isinstance(change, Deleted):
                    break
                if isinstance(change, Applied):
                    states = [container.state for container in change.object.status.container_statuses]
                    codes |= {state.terminated.exit_code for state in states if state.terminated is not None}
        return codes

    async def _until(self, client: KubeClient, name: str, condition: Callable[[Pod], bool]) -> Pod:
        watch = client.reflect(PODS, namespace=client.namespace, fields={"metadata.name": name})
        async with asyncio.timeout(PATIENCE_SECONDS), aclosing(watch) as changes:
            async for change in changes:
                if isinstance(change, Applied) and condition(change.object):
                    return change.object
        raise AssertionError("a watch has no end")

    async def _is_gone(self, client: KubeClient, name: str, resource: Any = CONFIG_MAPS) -> bool:
        try:
            await client.get(resource, name)
        except NotFoundError:
            return True
        return False
