"""The interface of kfp.Client over HTTP: what is refused, how, and what others than the client may send."""

import io
import json
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.kubernetes.endpoint import Endpoint, open_endpoint
from gangline.testing.builders import ONE_STEP
from tests.operations.fakes import Office

TOKEN = "open-sesame"
FILE = yaml.safe_dump(dict(ONE_STEP)).encode()


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    context = Office(tmp_path / "code").context()
    runner = web.AppRunner(make_kubernetes_app(lambda request: context, token=TOKEN), shutdown_timeout=1.0)
    await runner.setup()
    endpoint = await open_endpoint(runner, Endpoint(token=TOKEN, port=None), tmp_path / "door.json", wanted_port=None)
    yield f"http://127.0.0.1:{endpoint.port}"
    await runner.cleanup()


class Caller:
    """Asks and reads answers."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def __call__(self, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        async with self._session.request(method, f"/apis/v2beta1{path}", **more) as response:
            return response.status, await response.json()

    async def refused(self, status: int, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Expect a refusal in the form of google.rpc.Status."""
        found, body = await self(method, path, **more)
        assert found == status, body
        assert isinstance(body["code"], int)
        assert body["message"] == body["error"]
        assert body["details"][0]["@type"] == "type.googleapis.com/google.rpc.Status"
        return body

    async def upload(
        self, content: bytes | io.BytesIO, path: str = "/pipelines/upload", **query: str
    ) -> tuple[int, dict[str, Any]]:
        form = aiohttp.FormData()
        form.add_field("uploadfile", content, filename="pipeline.yaml")
        return await self("POST", path, data=form, params=query)


@pytest.fixture
async def ask(address: str) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(address, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        yield Caller(session)


async def test_only_the_owner_is_answered(address: str) -> None:
    async with aiohttp.ClientSession(address) as stranger:
        for path in ("/apis/v2beta1/runs", "/wrong/apis/v2beta1/runs"):
            async with stranger.get(path) as response:
                assert (response.status, (await response.json())["code"]) == (401, 16)
        async with stranger.get(f"/{TOKEN}/apis/v2beta1/healthz") as response:
            assert (response.status, (await response.json())["multi_user"]) == (200, False)


UNKNOWN = [
    ("GET", "/runs/none"),
    ("GET", "/runs/No Such Id"),
    ("GET", "/runs/a.b.c.d"),
    ("POST", "/runs/none:terminate"),
    ("POST", "/runs/none:retry"),
    ("POST", "/runs/none:archive"),
    ("DELETE", "/runs/none"),
    ("GET", "/experiments/none"),
    ("POST", "/experiments/none:archive"),
    ("DELETE", "/experiments/none"),
    ("GET", "/pipelines/none"),
    ("GET", "/pipelines/none/versions"),
    ("GET", "/pipelines/none/versions/none"),
    ("GET", "/pipelines/names/none"),
    ("DELETE", "/pipelines/none"),
    ("GET", "/recurringruns/none"),
    ("POST", "/recurringruns/none:disable"),
    ("GET", "/nothing/like/that"),
]


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
async def test_what_does_not_exist_is_not_found(ask: Caller, method: str, path: str) -> None:
    assert (await ask.refused(404, method, path))["code"] == 5


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/runs/none", "no run named 'none'"),
        ("/experiments/none", "no experiment named 'none'"),
        ("/pipelines/none", "no pipeline named 'none'"),
        ("/recurringruns/none", "no recurring run named 'none'"),
    ],
)
async def test_refusals_have_the_words_of_that_interface(ask: Caller, path: str, want: str) -> None:
    assert (await ask.refused(404, "GET", path))["message"] == want


async def test_a_refusal_does_not_repeat_the_token_of_the_address(address: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{address}/{TOKEN}/apis/v2beta1/nothing/like/that") as response,
    ):
        assert (response.status, TOKEN in await response.text()) == (404, False)


RUN = {"display_name": "mine", "pipeline_spec": dict(ONE_STEP)}
TRIGGER = {"cron_schedule": {"cron": "0 3 * * *"}}
BODIES: list[tuple[str, Any]] = [
    ("/runs", {}),
    ("/runs", {**RUN, "pipeline_spec": "text"}),
    ("/runs", {**RUN, "pipeline_spec": [1]}),
    ("/runs", {**RUN, "pipeline_spec": {"pipelineInfo": {"name": "x"}}}),
    ("/runs", {**RUN, "pipeline_spec": {**ONE_STEP, "root": {"dag": {"tasks": {"a": {"componentRef": {}}}}}}}),
    ("/runs", {**RUN, "pipeline_spec": {**ONE_STEP, "components": {"comp-a": {"executorLabel": "no"}}}}),
    (
        "/runs",
        {
            **RUN,
            "pipeline_spec": {
                **ONE_STEP,
                "root": {"dag": {"tasks": {"a": {"inputs": {"parameters": {"x": {"runtimeValue": {}}}}}}}},
            },
        },
    ),
    ("/runs", {**RUN, "display_name": 7}),
    ("/runs", {**RUN, "runtime_config": []}),
    ("/runs", {**RUN, "runtime_config": {"parameters": "many"}}),
    ("/runs", {**RUN, "runtime_config": {"parameters": {"unknown": 1}}}),
    ("/runs", {"pipeline_version_reference": "v1"}),
    ("/runs", {"pipeline_version_reference": {"pipeline_id": 7}}),
    ("/experiments", {}),
    ("/experiments", {"display_name": "x" * 300}),
    ("/experiments", {"display_name": "x", "namespace": "Not A Name"}),
    ("/pipelines", {}),
    (
        "/pipelines/create",
        {"pipeline": {"display_name": "x"}, "pipeline_version": {"package_url": {"pipeline_url": "http://x"}}},
    ),
    ("/recurringruns", RUN),
    ("/recurringruns", {**RUN, "trigger": {}}),
    ("/recurringruns", {**RUN, "trigger": {"cron_schedule": {"cron": "at noon"}}}),
    ("/recurringruns", {**RUN, "trigger": {"cron_schedule": {"cron": "TZ=Mars/Olympus 0 3 * * *"}}}),
    ("/recurringruns", {**RUN, "trigger": {"periodic_schedule": {"interval_second": "often"}}}),
    ("/recurringruns", {**RUN, "trigger": {"periodic_schedule": {"interval_second": "0"}}}),
    ("/recurringruns", {**RUN, "trigger": {**TRIGGER, "periodic_schedule": {"interval_second": "9"}}}),
    ("/recurringruns", {**RUN, "trigger": {"cron_schedule": {"cron": "0 3 * * *", "start_time": "soon"}}}),
    ("/recurringruns", {**RUN, "trigger": TRIGGER, "mode": "MAYBE"}),
    ("/recurringruns", {**RUN, "trigger": TRIGGER, "max_concurrency": "0"}),
    ("/recurringruns", {**RUN, "trigger": TRIGGER, "no_catchup": "perhaps"}),
]


@pytest.mark.parametrize(("path", "body"), BODIES)
async def test_a_wrong_body_is_refused(ask: Caller, path: str, body: Any) -> None:
    assert (await ask.refused(400, "POST", path, json=body))["code"] == 3


@pytest.mark.parametrize("path", ["/runs", "/experiments", "/pipelines", "/recurringruns"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"display_name": NaN}', b"[" * 100_000])
async def test_what_is_not_an_object_is_refused(ask: Caller, path: str, body: bytes) -> None:
    await ask.refused(400, "POST", path, data=body)


async def test_a_huge_body_is_refused_without_being_read_whole(ask: Caller) -> None:
    huge = json.dumps({"display_name": "x" * (9 * 2**20)}).encode()
    await ask.refused(413, "POST", "/runs", data=io.BytesIO(huge))
    assert (await ask.upload(io.BytesIO(huge)))[0] == 413


FILTERS = [
    "nonsense",
    "[]",
    '{"predicates": 7}',
    '{"predicates": [7]}',
    '{"predicates": [{"key": "shoe_size", "operation": "EQUALS", "string_value": "x"}]}',
    '{"predicates": [{"key": "name", "operation": "LIKE", "string_value": "x"}]}',
    '{"predicates": [{"key": "name", "operation": "EQUALS"}]}',
    '{"predicates": [{"key": "name", "operation": "IN", "string_value": "x"}]}',
    '{"predicates": [{"key": "name", "operation": "IS_SUBSTRING", "int_value": 3}]}',
    '{"predicates": [{"key": "created_at", "operation": "GREATER_THAN", "timestamp_value": "yesterday"}]}',
    '{"predicates": [{"key": {}, "operation": "EQUALS", "string_value": "x"}]}',
    "[" * 1_500,
]


@pytest.mark.parametrize("path", ["/runs", "/experiments", "/pipelines", "/recurringruns"])
async def test_wrong_questions_to_lists_are_refused(ask: Caller, path: str) -> None:
    for wrong in FILTERS:
        await ask.refused(400, "GET", path, params={"filter": wrong})
    for query in ({"sort_by": "shoe_size"}, {"sort_by": "name up"}, {"page_size": "many"}, {"page_size": "-1"}):
        await ask.refused(400, "GET", path, params=query)
    for token in ("nonsense", "W10=", "WyJ4IiwgMSwgInkiLCAieiJd", "eyJhIjogMX0="):
        await ask.refused(400, "GET", path, params={"page_token": token})


async def test_a_page_token_holds_for_its_filter_and_order_only(ask: Caller) -> None:
    for name in ("a", "b", "c"):
        assert (await ask("POST", "/experiments", json={"display_name": name}))[0] == 200
    _, page = await ask("GET", "/experiments", params={"page_size": "2"})
    assert ([each["display_name"] for each in page["experiments"]], page["total_size"]) == (["a", "b"], 3)
    token = page["next_page_token"]
    _, rest = await ask("GET", "/experiments", params={"page_size": "2", "page_token": token})
    assert [each["display_name"] for each in rest["experiments"]] == ["c"]
    await ask.refused(400, "GET", "/experiments", params={"sort_by": "name", "page_token": token})


BROKEN = {
    "not YAML": b"a: [",
    "not text": b"\xff\xfe\x00",
    "empty": b"",
    "another document": b"kind: Job",
    "a broken zip": b"PK\x03\x04 and nothing else",
    "a broken tar": b"\x1f\x8b and nothing else",
    "a bomb of references": b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_is_refused(ask: Caller, content: bytes) -> None:
    status, body = await ask.upload(content, name="broken")
    assert (status, body["code"]) == (400, 3), body
    assert (await ask("GET", "/pipelines"))[1]["total_size"] == 0


async def test_a_form_without_the_file_is_refused(ask: Caller) -> None:
    await ask.refused(400, "POST", "/pipelines/upload", data=b"no form")
    form = aiohttp.FormData()
    form.add_field("another", b"x", filename="x")
    await ask.refused(400, "POST", "/pipelines/upload", data=form)


def zipped() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("pipeline.yaml", FILE)
        return file.getvalue()


def tarred() -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            member = tarfile.TarInfo("pipeline.yaml")
            member.size = len(FILE)
            archive.addfile(member, io.BytesIO(FILE))
        return file.getvalue()


@pytest.mark.parametrize("content", [FILE, zipped(), tarred()], ids=["yaml", "zip", "tar.gz"])
async def test_a_file_may_be_packed_as_the_compiler_packs_it(ask: Caller, content: bytes) -> None:
    status, made = await ask.upload(content, name="My pipeline", description="it is mine")
    assert (status, made["display_name"], made["description"]) == (200, "My pipeline", "it is mine")
    _, versions = await ask("GET", f"/pipelines/{made['pipeline_id']}/versions")
    assert versions["pipeline_versions"][0]["pipeline_spec"]["pipelineInfo"] == {"name": "one"}
    assert (await ask("GET", "/pipelines/names/My pipeline"))[1] == made
    _, changed = await ask("PATCH", f"/pipelines/{made['pipeline_id']}", json={"description": "ours"})
    assert (changed["display_name"], changed["description"]) == ("My pipeline", "ours")
    assert (await ask.refused(400, "DELETE", f"/pipelines/{made['pipeline_id']}"))["code"] == 3
    assert (await ask("DELETE", f"/pipelines/{made['pipeline_id']}", params={"cascade": "true"}))[0] == 200
    await ask.refused(404, "GET", f"/pipelines/{made['pipeline_id']}")


async def test_records_of_other_namespaces_have_ids_that_name_them(ask: Caller) -> None:
    _, made = await ask("POST", "/experiments", json={"display_name": "e", "namespace": "red"})
    assert (made["experiment_id"], made["namespace"]) == ("red.e", "red")
    assert (await ask("GET", "/experiments/red.e"))[1] == made
    assert (await ask("GET", "/experiments"))[1]["total_size"] == 0
    assert (await ask("GET", "/experiments", params={"namespace": "red"}))[1]["experiments"] == [made]
    _, run = await ask("POST", "/runs", json={**RUN, "experiment_id": "red.e"})
    assert run["run_id"].startswith("red.one-")
    assert (await ask("GET", f"/runs/{run['run_id']}"))[1]["experiment_id"] == "red.e"


async def test_a_run_without_an_experiment_is_in_the_default_one(ask: Caller) -> None:
    _, run = await ask("POST", "/runs", json=RUN)
    _, found = await ask("GET", f"/experiments/{run['experiment_id']}")
    assert found["display_name"] == "Default"
    assert (run["state"], run["storage_state"]) == ("RUNNING", "AVAILABLE")
    await ask.refused(501, "POST", "/visualizations/default")
