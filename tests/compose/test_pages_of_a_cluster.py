"""``gangline dashboard`` for a cluster: pages out of a kubeconfig context, with the user's own rights there."""

import asyncio
import tempfile
from pathlib import Path

import aiohttp
import pytest
import yaml

from gangline.compose.context import ContextService
from gangline.kube import KubeClient
from gangline.model import CodeLimits
from tests.apiserver import ApiServer
from tests.contract.kubernetes import store_over

PAGES = "/dashboard/tenants/default"
JOB = """\
apiVersion: gangline.dev/v1
kind: Job
metadata: {name: from-the-page}
spec: {command: [sleep, "1"], image: busybox}
"""


async def test_a_job_is_submitted_from_the_page_and_the_page_ends_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client, store_over(client):
        context = {"name": "test", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [{"name": "c", "cluster": {"server": access.server}}], "contexts": [context]}
        config["users"] = [{"name": "u", "user": {}}]
        (tmp_path / "config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        with tempfile.TemporaryDirectory(prefix="gc") as sockets:  # paths of sockets are short
            socket = Path(sockets) / "service.sock"
            places = {"socket": socket, "code_directory": tmp_path / "code"}
            service = ContextService("test", namespace="default", code_limits=CodeLimits(), **places)  # type: ignore[arg-type]
            ready, stop = asyncio.Event(), asyncio.Event()
            serving = asyncio.create_task(service.run(ready=ready.set, stop=stop))
            await asyncio.wait_for(ready.wait(), 60)
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session:
                answer = await session.post("http://service/api/v1/dashboard")
                link = (await answer.json())["address"]
            base = link.partition("/dashboard/")[0]
            async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
                assert (await browser.get(f"{PAGES}/jobs")).status == 401
                assert (await browser.get(link.removeprefix(base))).status == 200
                text = await (await browser.get(f"{PAGES}/submit")).text()
                csrf = text.partition('name="csrf" value="')[2].partition('"')[0]
                answer = await browser.post(f"{PAGES}/submit", data={"csrf": csrf, "file": JOB})
                assert answer.status == 200, await answer.text()
                assert "from-the-page" in await (await browser.get(f"{PAGES}/jobs")).text()
                stop.set()
                await serving
                with pytest.raises(aiohttp.ClientConnectionError):
                    await browser.get(f"{PAGES}/jobs")
