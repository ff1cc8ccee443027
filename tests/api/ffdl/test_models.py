"""FfDL's interface as its clients use it: multipart uploads, models, statuses, halts and pages of output."""

import base64
import io
import stat
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gangline import operations
from gangline.model import Phase, Tenant
from gangline.model.team.access import Role
from gangline.model.team.audit import AuditEntry
from tests.api.team import OTHER, OWN, TeamOffice, served

MANIFEST = """
name: My first Model
gpus: 0
cpus: 0.5
memory: 1Gb
learners: 2
framework: {name: tensorflow, version: 1.5.0-py3, command: python3 train.py --rate 0.1}
"""


def basic(token: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'anybody:{token}'.encode()).decode()}"}


def zipped(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()


def form(manifest: str = MANIFEST, definition: bytes | None = None) -> aiohttp.FormData:
    data = aiohttp.FormData()
    data.add_field("manifest", manifest, filename="manifest.yml", content_type="application/octet-stream")
    if definition is not None:
        data.add_field("model_definition", definition, filename="model.zip", content_type="application/zip")
    return data


class Trainings:
    """A member of one tenant, at FfDL's interface."""

    def __init__(self, session: aiohttp.ClientSession, token: str, office: TeamOffice) -> None:
        self.session, self.headers, self.office = session, basic(token), office

    async def ask(self, method: str, path: str, want: int = 200, **more: object) -> dict[str, object]:
        asked = self.session.request(
            method, f"/v1{path}", headers=self.headers, params={"version": "2017-02-13"}, **more
        )
        async with asked as answer:
            assert answer.status == want, await answer.text()
            return await answer.json()

    async def train(self, **upload: object) -> str:
        made = await self.ask("POST", "/models", 201, data=form(**upload))
        assert made["location"] == f"/v1/models/{made['model_id']}"
        return str(made["model_id"])


@pytest.fixture
async def trainings(tmp_path: Path) -> AsyncIterator[Trainings]:
    office = TeamOffice(tmp_path)
    token = await office.token("m", Role.MEMBER, OWN)
    async with served(office.app(), tmp_path) as session:
        yield Trainings(session, token, office)


async def test_a_model_is_trained_as_its_manifest_says(trainings: Trainings) -> None:
    model = await trainings.train(definition=zipped(("train.py", b"print(1)")))
    shown = await trainings.ask("GET", f"/models/{model}")
    assert (shown["name"], shown["framework"]) == ("my-first-model", {"name": "tensorflow", "version": "1.5.0-py3"})
    training = shown["training"]
    assert {name: training[name] for name in ("command", "cpus", "gpus", "learners")} == {
        "command": "python3 train.py --rate 0.1",
        "cpus": 0.5,
        "gpus": 0.0,
        "learners": 2,
    }
    assert training["training_status"]["status"] == "QUEUED"
    job = await operations.get_job(trainings.office.context("root"), OWN, model)
    assert job.spec.code is not None


async def test_names_may_be_used_again(trainings: Trainings) -> None:
    first, second = await trainings.train(), await trainings.train()
    listed = (await trainings.ask("GET", "/models"))["models"]
    assert {each["model_id"] for each in listed} == {first, second}
    assert {each["name"] for each in listed} == {"my-first-model"}


async def test_the_definition_comes_back_as_it_was_sent(trainings: Trainings) -> None:
    files = (("train.py", b"print(1)"), ("lib/deep/net.py", b"x" * 100_000))
    model = await trainings.train(definition=zipped(*files))
    path = f"/v1/models/{model}/definition"
    async with trainings.session.get(path, headers=trainings.headers) as answer:
        with zipfile.ZipFile(io.BytesIO(await answer.read())) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == dict(files)


async def test_a_training_is_halted_and_goes_on(trainings: Trainings) -> None:
    model = await trainings.train()
    assert await trainings.ask("PATCH", f"/models/{model}", 202, json={"status": "halt"}) == {"model_id": model}
    shown = await trainings.ask("GET", f"/models/{model}")
    assert shown["training"]["training_status"]["status"] == "HALTED"
    await trainings.ask("PATCH", f"/models/{model}", 202, json={"status": "resume"})
    job = await operations.get_job(trainings.office.context("root"), OWN, model)
    assert job.phase in (Phase.RESUMED, Phase.QUEUED)
    refused = await trainings.ask("PATCH", f"/models/{model}", 400, json={"status": "explode"})
    assert (refused["code"], refused["error"]) == (400, "Bad Request")


async def test_a_deleted_training_is_gone(trainings: Trainings) -> None:
    model = await trainings.train()
    assert await trainings.ask("DELETE", f"/models/{model}") == {"model_id": model}
    await trainings.ask("GET", "/models/training-nothing", 404)


async def test_output_comes_in_pages(trainings: Trainings) -> None:
    model = await trainings.train()
    job = await operations.get_job(trainings.office.context("root"), OWN, model)
    for number in range(5):
        trainings.office.engine.write(job, f"line {number}")

    async def read(**query: object) -> list[str]:
        path = f"/v1/logs/{model}/loglines"
        async with trainings.session.get(path, headers=trainings.headers, params=query) as answer:
            assert answer.status == 200, await answer.text()
            return [each["line"] for each in (await answer.json())["models"]]

    assert await read() == [f"line {number}" for number in range(5)]
    assert await read(pos=1, pagesize=2) == ["line 1", "line 2"]
    assert await read(pos=-2) == ["line 3", "line 4"]
    assert await read(since_time=-1) == ["line 4"]
    async with trainings.session.ws_connect(f"/v1/models/{model}/logs", headers=trainings.headers) as socket:
        assert [message.data async for message in socket] == [f"line {number}\n" for number in range(5)]


def link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        header = zipfile.ZipInfo("passwd")
        header.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(header, "/etc/passwd")
    return out.getvalue()


@pytest.mark.parametrize(
    ("upload", "want"),
    [
        ({"manifest": "name: x"}, "C101"),
        ({"manifest": "a: [b"}, "C101"),
        ({"manifest": "\x00"}, "C101"),
        ({"manifest": f"{MANIFEST}\n---\n{MANIFEST}"}, "C101"),
        ({"definition": b"not a zip"}, "C102"),
        ({"definition": zipped(("../../etc/cron.d/x", b""))}, "C102"),
        ({"definition": zipped(("/etc/x", b""))}, "C102"),
        ({"definition": link()}, "C102"),
        ({"definition": zipped(("x", b"abc"))[:-30]}, "C102"),
    ],
    ids=["no framework", "no yaml", "no text", "two", "no zip", "above", "absolute", "link", "cut"],
)
async def test_what_is_wrong_with_an_upload_has_its_code(trainings: Trainings, upload: dict, want: str) -> None:
    refused = await trainings.ask("POST", "/models", 400, data=form(**upload))
    assert want in refused["description"]


async def test_a_body_that_is_no_form_is_refused(trainings: Trainings) -> None:
    await trainings.ask("POST", "/models", 400, data=b"{}")
    headers = {**trainings.headers, "Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"", b"--x", b"--x\r\nContent-Disposition: form-data; name=manifest\r\n\r\nabc"):
        async with trainings.session.post("/v1/models", data=body, headers=headers) as answer:
            assert answer.status == 400, await answer.text()


async def test_others_see_nothing_of_it(trainings: Trainings) -> None:
    model = await trainings.train()
    stranger = Trainings(trainings.session, await trainings.office.token("o", Role.ADMIN, OTHER), trainings.office)
    assert await stranger.ask("GET", "/models") == {"models": []}
    await stranger.ask("GET", f"/models/{model}", 404)
    viewer = Trainings(trainings.session, await trainings.office.token("v", Role.VIEWER, OWN), trainings.office)
    await viewer.ask("GET", f"/models/{model}")
    await viewer.ask("DELETE", f"/models/{model}", 403)
    nobody = Trainings(trainings.session, "gangline_000000000000_wrong", trainings.office)
    assert (await nobody.ask("GET", "/models", 401))["code"] == 401


async def test_a_training_is_in_the_audit_record_of_its_tenant(trainings: Trainings) -> None:
    await trainings.train()
    entry: AuditEntry
    (entry,) = await trainings.office.audit.read(Tenant(OWN), before=None, limit=1)
    assert (entry.method, entry.path, entry.status) == ("POST", "/v1/models", 201)
