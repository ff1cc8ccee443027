"""The interface of kfp.Client over the records of a cluster, as ``gangline pipeline api --context`` serves it."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
import yaml

from gangline.compose.context import ContextService
from gangline.kinds.pipeline import PIPELINE
from gangline.kube import KubeClient
from gangline.model import CodeLimits, Tenant
from gangline.storage.kubernetes import KubernetesStore
from gangline.testing.builders import ONE_STEP
from tests.apiserver import ApiServer
from tests.contract.kubernetes import store_over

MADE = {"artifacts": {"data": {"artifactType": {"schemaTitle": "system.Dataset"}}}}


async def test_pipelines_runs_and_schedules_are_objects_of_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client, store_over(client):
        cluster = {"name": "c", "cluster": {"server": access.server}}
        context = {"name": "test", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
        (tmp_path / "config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        service = ContextService(
            "test",
            namespace="default",
            socket=tmp_path / "socket",
            code_directory=tmp_path / "code",
            code_limits=CodeLimits(),
            kfp_ready=address.set_result,
        )
        stop = asyncio.Event()
        serving = asyncio.create_task(service.run(ready=lambda: None, stop=stop))
        async with aiohttp.ClientSession(f"{await address}/apis/v2beta1/") as session:
            form = aiohttp.FormData()
            form.add_field("uploadfile", yaml.safe_dump(dict(ONE_STEP)).encode(), filename="one.yaml")
            async with session.post("pipelines/upload", data=form, params={"name": "Mine"}) as response:
                pipeline = (await response.json())["pipeline_id"]
            body = {"display_name": "first", "pipeline_version_reference": {"pipeline_id": pipeline}}
            async with session.post("runs", json=body) as response:
                run = await response.json()
            assert (response.status, run["state"]) == (200, "RUNNING")
            trigger = {"cron_schedule": {"cron": "0 3 * * *"}}
            async with session.post("recurringruns", json={**body, "trigger": trigger}) as response:
                assert response.status == 200
            async with session.post(f"runs/{run['run_id']}:terminate") as response:
                assert response.status == 200
            async with session.get("runs", params={"sort_by": "created_at desc"}) as response:
                assert [each["state"] for each in (await response.json())["runs"]] == ["CANCELING"]
            making = {**ONE_STEP, "components": {"comp-a": {"executorLabel": "exec-a", "outputDefinitions": MADE}}}
            stored = {"pipeline_spec": making, "runtime_config": {"pipeline_root": "s3://mine/runs"}}
            async with session.post("runs", json={"pipeline_spec": making}) as response:
                assert (response.status, "pods take theirs" in (await response.json())["message"]) == (400, True)
            async with session.post("runs", json=stored) as response:
                kept = (await response.json())["run_id"]
            async with session.get("runs/none") as response:
                assert (response.status, (await response.json())["code"]) == (404, 5)
        store = KubernetesStore(client, namespace="default")
        found = await store.records(PIPELINE).find(Tenant("default"), run["run_id"])
        made = await store.records(PIPELINE).find(Tenant("default"), kept)
        await store.close()
        assert found is not None
        assert found.status.stopped
        assert made is not None
        assert made.spec.root == "s3://mine/runs"
        stop.set()
        await serving
