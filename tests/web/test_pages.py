"""What single pages say, asked for over a real port."""

import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from gangline import operations
from gangline.cli.main import cli
from gangline.kinds import all_kinds
from gangline.kinds.service import SERVICE
from gangline.kinds.workspace import WORKSPACE
from gangline.lifecycle.events import GangPlaced
from gangline.model import DEFAULT_TENANT, JobId, JournalRecord, Phase, Resources, RoleName, RoleSpec, Timestamp
from gangline.model.kinds.service import RevisionTraffic, ServiceSpec, ServiceStatus
from gangline.model.kinds.workspace import Tool
from gangline.model.record import Record, RecordId
from gangline.testing.builders import make_placement
from gangline.web.kind_words import title_of
from tests.operations.fakes import Office
from tests.web.conftest import Visitor
from tests.web.test_protection import JOBS, phase, submitted

TENANT = "/dashboard/tenants/default"
FILE = """\
apiVersion: gangline.dev/v1
kind: Job
metadata: {name: train}
spec: {command: [sleep, "1"], resources: {cpu: CPU}}
"""


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.name)
async def test_every_kind_is_called_by_words_and_its_commands_exist(owner: Visitor, kind: object) -> None:
    status, text = await owner.get(f"{TENANT}/{kind.plural}")  # type: ignore[attr-defined]
    assert status == 200
    title = title_of(kind)  # type: ignore[arg-type]
    assert f"<h1>{title}</h1>" in text
    assert all(word.isalpha() and len(word) < 14 for word in title.split())  # no two words run together
    shown = [unescape(each) for each in re.findall(r'<code class="command">([^<]+)', text)]
    assert shown
    for line in shown:
        answer = CliRunner().invoke(cli, [*shlex.split(line)[1:], "--help"])
        assert answer.exit_code == 0, line


async def test_a_long_story_is_told_from_its_end(office: Office, owner: Visitor) -> None:
    await submitted(office)
    job = await office.store.get(JobId("id-mnist"))
    story = [
        JournalRecord(job_id=job.id, at=Timestamp(1.0), reason="Told", message=f"page {number}", phase=Phase.QUEUED)
        for number in range(300)
    ]
    await office.store.save(job, story)
    _, text = await owner.get(f"{JOBS}/mnist")
    assert "page 299" in text
    assert text.index("page 299") < text.index("page 298")
    assert "page 1<" not in text


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"file": FILE.replace("CPU", "2")}, "train would start now on node-0."),
        ({"file": FILE.replace("CPU", "64")}, "train would not start."),
        ({"file": FILE.replace("CPU", "64"), "add-nodes": "1x8xh200"}, "train would start now on new"),
        ({"add-nodes": "8xmany"}, "8xmany"),
        ({"file": "kind: ["}, "alert"),
        ({"quota": "nowhere=weight:3"}, "nowhere"),
        ({}, "nothing would be different"),
    ],
    ids=["fits", "too large", "with a machine more", "no such machines", "no YAML", "no such queue", "nothing"],
)
async def test_what_would_happen_is_told_and_nothing_is_done(
    office: Office, owner: Visitor, given: dict[str, str], want: str
) -> None:
    _, text = await owner.post(f"{TENANT}/what-if", {"csrf": await owner.csrf(), **given})
    assert want in unescape(text)
    assert await operations.unfinished_jobs(office.context()) == []


async def test_the_schedule_says_when_those_who_wait_should_start(office: Office, owner: Visitor) -> None:
    await submitted(office)
    await submitted(office, "huge", roles=(RoleSpec(name=RoleName("worker"), command=("true",), resources=HUGE),))
    _, text = await owner.get(f"{TENANT}/schedule")
    rows = {row.partition('"')[0]: row for row in re.split(r'<tr><td><a href="[^"]+" class="name">', text)[1:]}
    named = {row.partition("<")[0]: row for row in rows.values()}
    assert "phase planned" in named["mnist"]
    assert "not in sight" in named["huge"]


HUGE = Resources(cpu_millis=999_000, memory_mib=64)


async def test_a_preview_of_a_scale_says_what_it_displaces_and_scales_nothing(office: Office, owner: Visitor) -> None:
    roles = (RoleSpec(name=RoleName("worker"), command=("true",), replicas=1, minimum=1, maximum=4),)
    await submitted(office, roles=roles)
    form = {"csrf": await owner.csrf(), "worker": "3", "as": "preview"}
    status, text = await owner.post(f"{JOBS}/mnist/scale", form)
    assert status == 200
    assert "No job would be displaced or delayed." in text
    assert 'value="3"' in text
    assert "gangline scale mnist worker=3 --tenant default" in text
    assert not (await office.store.get(JobId("id-mnist"))).scale
    assert (await owner.post(f"{JOBS}/mnist/scale", {**form, "as": ""}))[0] == 303
    assert dict((await office.store.get(JobId("id-mnist"))).scale) == {"worker": 3}


async def test_several_jobs_are_acted_on_at_once_and_what_destroys_asks_first(office: Office, owner: Visitor) -> None:
    for name in ("one", "two", "three"):
        await submitted(office, name)
    csrf = await owner.csrf()
    form = [("csrf", csrf), ("job", "one"), ("job", "two"), ("job", "not-there"), ("job", "<b>")]
    assert (await owner.post(f"{TENANT}/selected/compare", form))[1].endswith("/compare?job=one&job=two&job=not-there")  # type: ignore[arg-type]
    status, text = await owner.post(f"{TENANT}/selected/cancel", form)  # type: ignore[arg-type]
    assert "gangline cancel one two not-there --tenant default" in text
    assert [await phase(office, name) for name in ("one", "two")] == [Phase.QUEUED] * 2
    status, text = await owner.post(f"{TENANT}/selected/cancel", [*form, ("sure", "yes")])  # type: ignore[arg-type]
    assert status == 200
    assert "2 jobs done" in text
    assert "not-there" in text
    assert [await phase(office, name) for name in ("one", "two")] == [Phase.CANCELLED] * 2
    assert await phase(office, "three") is Phase.QUEUED


async def test_more_columns_are_shown_when_asked_for(office: Office, owner: Visitor) -> None:
    await submitted(office, labels={"team": "vision"})
    assert "team=vision" not in (await owner.get(JOBS))[1]
    assert "team=vision" in (await owner.get(f"{JOBS}?column=labels&column=GPUs"))[1]


async def test_a_job_shows_what_it_left_and_came_from(office: Office, owner: Visitor) -> None:
    await submitted(office)
    assert f"{JOBS}/mnist/files" in (await owner.get(f"{JOBS}/mnist"))[1]
    status, text = await owner.get(f"{JOBS}/mnist/files")
    assert status == 200
    assert "0 checkpoints" in text
    assert "job <a" in (await owner.get(f"{JOBS}/mnist/lineage"))[1]


async def test_settings_are_shown_with_where_they_came_from(owner: Visitor) -> None:
    status, text = await owner.get(f"{TENANT}/settings")
    assert status == 200
    assert '<td><code>nodes</code></td><td><span class="reason">4</span></td><td><b>file</b></td>' in text
    assert "&lt;none&gt;" in text


async def test_nodes_show_a_map_of_gpus_and_cores(office: Office, owner: Visitor) -> None:
    await submitted(office)
    job = await office.store.get(JobId("id-mnist"))
    placement = make_placement(job.spec, node="node-0")
    await office.happen(job.id, GangPlaced(job_id=job.id, at=office.clock.now(), placement=placement))
    _, text = await owner.get(f"{TENANT}/nodes")
    (node,) = await office.engine.nodes()
    held = sum(role.replicas * role.resources.cpu_millis for role in job.spec.roles) / 1000
    assert held
    assert f'aria-label="{held:g} of {node.capacity.cpu_millis // 1000} cores held"' in text
    assert f'<line x2="{6 * held:g}" y1="3" y2="3" class="cores held">' in text
    assert 'aria-label="0 of 2 GPUs held"' in text


async def test_many_who_look_have_the_unfinished_jobs_read_once(
    office: Office, owner: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submitted(office)
    reads, read = [], office.store.unfinished

    def counted() -> object:
        reads.append(1)
        return read()

    monkeypatch.setattr(office.store, "unfinished", counted)
    for _ in range(3):
        assert "mnist" in (await owner.get(f"{TENANT}/queues/default"))[1]
    assert len(reads) == 1
    office.clock.advance(1.0)
    await submitted(office, "another")
    assert "another" in (await owner.get(f"{TENANT}/queues/default"))[1]


async def test_the_tensorboard_of_jobs_is_one_click_away_and_the_same_again(
    office: Office, owner: Visitor, tmp_path: Path
) -> None:
    office.object_directory, office.claim_directory = tmp_path / "objects", tmp_path / "claims"
    await submitted(office)
    await submitted(office, "other")
    assert "gangline tensorboard mnist --tenant default" in (await owner.get(f"{JOBS}/mnist"))[1]
    form = {"csrf": await owner.csrf(), "job": "mnist"}
    status, where = await owner.post(f"{TENANT}/selected/tensorboard", form)
    assert status == 303
    status, text = await owner.get(where)
    assert status == 200
    assert "tensorboard" in text
    assert await owner.post(f"{TENANT}/selected/tensorboard", form) == (303, where)
    (made,) = (await operations.list_records(office.context(), WORKSPACE, DEFAULT_TENANT, limit=5)).items
    assert (made.spec.tool, made.spec.jobs) == (Tool.TENSORBOARD, ("mnist",))
    for name, want in (("nobody", 404), ("", 400)):
        assert (await owner.post(f"{TENANT}/selected/tensorboard", form | {"job": name}))[0] == want


async def test_commands_that_differ_are_shown_as_they_are_typed(office: Office, owner: Visitor) -> None:
    await submitted(office)
    await submitted(office, "other", roles=(RoleSpec(name=RoleName("worker"), command=("echo", "two words")),))
    _, text = await owner.get(f"{TENANT}/compare?job=mnist&job=other")
    assert "echo 'two words'" in unescape(text)


async def test_a_service_shows_what_its_revisions_are_asked(office: Office, owner: Visitor) -> None:
    traffic = RevisionTraffic(revision=2, per_second=12.5, errors=0.02, median_seconds=0.01, p95_seconds=2.5)
    status = ServiceStatus(current=2, scale=1, traffic=(traffic,))
    spec = ServiceSpec(name="digits", model="model://mnist")
    record = Record(id=RecordId("s1"), spec=spec, status=status, created_at=Timestamp(0.0))
    await office.store.records(SERVICE).create(record)
    text = (await owner.get(f"{TENANT}/services/digits"))[1]
    for told in ("12.5", "2.0%", "10 ms", "2.5 s", "Send a request"):
        assert told in text
