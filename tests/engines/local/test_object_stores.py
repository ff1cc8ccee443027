"""Jobs whose data comes from an object store and whose results go to one."""

import os
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gangline.data.addresses import parse
from gangline.data.credentials import StoreCredentials
from gangline.data.manifests import MANIFEST
from gangline.data.stores import Folder
from gangline.data.unpacking import PermanentError
from gangline.engines.local.keeper.launch import MARKER
from gangline.engines.local.keeper.orders import read_order
from gangline.engines.local.keeper.system import processes
from gangline.lifecycle.events import GangFailed, GangStopped, OutputsStored, ReplicaExited
from gangline.model import DataMove, Gang, Policy, Tenant
from gangline.model.jobs.spec import CheckpointRule
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import place
from tests.data.proxy import proxy_to
from tests.data.servers import Server, s3_server
from tests.engines.local.machinery import LocalSubject

SECRET = "very secret"


@dataclass(frozen=True)
class Stores:
    """A directory of one store, as the engine is handed it."""

    tenant: str
    credentials: StoreCredentials

    async def find(self, tenant: str, name: str | None, address: str) -> tuple[str, StoreCredentials] | None:
        assert address.startswith("s3://bucket")
        if (tenant, name or "lake") != (self.tenant, "lake"):
            raise PermanentError(f"there is no store '{name}'")
        return "lake", self.credentials


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def subject(tmp_path: Path, s3: Server) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path, stores=Stores("default", s3.credentials)) as subject:
        yield subject


def folder_at(server: Server, path: str) -> Folder:
    return Folder.open(parse(f"s3://bucket/{path}"), server.credentials, patience_seconds=5)


async def gang_of(subject: LocalSubject, script: str, tenant: str = "default", **fields: object) -> Gang:
    role = make_role(command=("sh", "-c", script))
    spec = make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), tenant=Tenant(tenant), **fields)
    return place(spec, await subject.node())


async def run_to_its_end(subject: LocalSubject, gang: Gang) -> None:
    await subject.engine.run(gang)
    (exited,) = await subject.news.wait_for(ReplicaExited)
    assert exited.exit_code == 0
    await subject.engine.finish(gang)
    await subject.news.wait_for(OutputsStored)
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


async def test_a_job_reads_from_a_bucket_and_writes_into_one(subject: LocalSubject, s3: Server) -> None:
    folder_at(s3, "inputs").write("a.txt", b"hello")
    folder_at(s3, "inputs").write("b.tmp", b"not wanted")
    gang = await gang_of(
        subject,
        'ls "$DATA_DIR"; cat "$DATA_DIR/a.txt" > "$RESULT_DIR/model"',
        inputs=(DataMove("s3://bucket/inputs", "$DATA_DIR", store="lake", exclude=("*.tmp",)),),
        outputs=(DataMove("$RESULT_DIR", "s3://bucket/results/$JOB_NAME", store="lake"),),
    )
    await run_to_its_end(subject, gang)
    assert [line.text for line in await subject.lines()] == ["a.txt"]
    found = folder_at(s3, "results/mnist")
    assert {entry.name for entry in found.entries()} == {"model", MANIFEST}
    assert found.read_small("model")[0] == b"hello"


async def test_movers_that_are_killed_are_followed_by_others_of_the_same_attempt(tmp_path: Path, s3: Server) -> None:
    folder_at(s3, "killed").write("a.txt", b"hello")
    with proxy_to(int(s3.credentials.endpoint.rpartition(":")[2])) as proxy:
        async with LocalSubject.over(tmp_path, stores=Stores("default", s3.at(proxy.endpoint))) as subject:
            killed: dict[int, str] = {}

            def kill(_: int) -> bool:
                """Kill whoever asks the store, twice in each stage."""
                for kind in ("prepare", "outputs"):
                    marker = f"{MARKER}={read_order(f'{subject.attempt()}/order.json').token}:{kind}".encode()
                    for pid in processes.everyone():
                        enough = pid in killed or list(killed.values()).count(kind) == 2
                        if not enough and processes.begins_with(pid, marker):
                            os.kill(pid, signal.SIGKILL)
                            killed[pid] = kind
                return False

            proxy.refuse = kill
            gang = await gang_of(
                subject,
                'cp "$DATA_DIR/a.txt" "$RESULT_DIR"',
                inputs=(DataMove("s3://bucket/killed", "$DATA_DIR", store="lake"),),
                outputs=(DataMove("$RESULT_DIR", "s3://bucket/killed-results", store="lake"),),
            )
            await run_to_its_end(subject, gang)
            assert list(killed.values()) == ["prepare", "prepare", "outputs", "outputs"]
            assert subject.news.of(GangFailed) == []
    assert folder_at(s3, "killed-results").read_small("a.txt")[0] == b"hello"


async def test_keys_are_in_one_file_of_their_own_and_gone_with_the_attempt(subject: LocalSubject, s3: Server) -> None:
    folder_at(s3, "keys").write("a.txt", b"hello")
    move = DataMove("s3://bucket/keys", "$DATA_DIR", store="lake")
    gang = await gang_of(subject, "env", inputs=(move,))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    file = subject.attempt() / "stores.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    holders = [path for path in subject.root.rglob("*") if path.is_file() and SECRET in path.read_text("latin-1")]
    assert holders == [file]
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)
    assert not file.exists()


@pytest.mark.parametrize(("tenant", "store"), [("default", "pond"), ("other", "lake")])
async def test_a_store_that_the_tenant_does_not_have_is_a_clear_reason(
    subject: LocalSubject, tenant: str, store: str
) -> None:
    gang = await gang_of(subject, "true", tenant, inputs=(DataMove("s3://bucket/x", "$DATA_DIR", store=store),))
    await subject.engine.run(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert f"there is no store '{store}'" in failed.message


async def test_a_refused_key_fails_the_job_once_and_is_not_shown(tmp_path: Path, s3: Server) -> None:
    wrong = StoreCredentials(endpoint=s3.credentials.endpoint, key="tester", secret="not the one")
    async with LocalSubject.over(tmp_path, stores=Stores("default", wrong)) as subject:
        move = DataMove("s3://bucket/x", "$DATA_DIR", store="lake")
        await subject.engine.run(await gang_of(subject, "true", inputs=(move,)))
        (failed,) = await subject.news.wait_for(GangFailed)
        assert (failed.reason, failed.permanent) == ("InputsFailed", True)
        assert "the store refuses the key" in failed.message
        assert "not the one" not in failed.message


async def test_what_one_job_fetched_the_next_takes_from_the_cache(tmp_path: Path, s3: Server) -> None:
    folder_at(s3, "cached").write("a.txt", b"hello")
    async with LocalSubject.over(tmp_path, stores=Stores("default", s3.credentials)) as subject:
        move = DataMove("s3://bucket/cached", "$DATA_DIR", store="lake")
        await run_to_its_end(subject, await gang_of(subject, "true", inputs=(move,)))
        content = list((subject.root / "cache" / "default" / "content").iterdir())
        assert [path.read_bytes() for path in content] == [b"hello"]


async def test_a_move_that_names_no_store_uses_the_default(subject: LocalSubject, s3: Server) -> None:
    folder_at(s3, "by-default").write("a.txt", b"hello")
    move = DataMove("s3a://bucket/by-default", "$DATA_DIR")  # another name of the scheme, the same store
    await run_to_its_end(subject, await gang_of(subject, 'cat "$DATA_DIR/a.txt"', inputs=(move,)))
    assert [line.text for line in await subject.lines()] == ["hello"]


async def test_a_store_for_a_move_between_files_is_a_clear_reason(subject: LocalSubject) -> None:
    move = DataMove("/etc/hostname", "$DATA_DIR", store="lake")
    await subject.engine.run(await gang_of(subject, "true", inputs=(move,)))
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert "store 'lake' is named for a move between files" in failed.message


@pytest.mark.parametrize(
    ("to", "want"),
    [("nfs://filer/x", "on one machine checkpoints are written to a path"), ("$NO/x", "a relative path")],
)
async def test_checkpoints_that_could_not_be_written_are_refused_before_anything_starts(
    subject: LocalSubject, to: str, want: str
) -> None:
    await subject.engine.run(await gang_of(subject, "true", checkpoints=CheckpointRule(to=to)))
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert want in failed.message


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": (DataMove("pvc://nowhere/sets", "$DATA_DIR"),)},
        {"outputs": (DataMove("$RESULT_DIR", "pvc://nowhere/sets"),)},
        {"checkpoints": CheckpointRule(to="pvc://nowhere/sets")},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_volume_that_does_not_exist_is_a_clear_reason_before_anything_starts(
    subject: LocalSubject, fields: dict[str, Any]
) -> None:
    await subject.engine.run(await gang_of(subject, "true", **fields))
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert "pvc://nowhere/sets: there is no volume 'nowhere'; create it with" in failed.message
    assert not (subject.root / "claims" / "default" / "nowhere").exists()


async def test_a_claim_of_a_volume_is_a_directory_of_the_tenant_here(subject: LocalSubject) -> None:
    claim = subject.root / "claims" / "default" / "shared" / "sets"
    claim.mkdir(parents=True)
    (claim / "a.txt").write_text("from the claim")
    gang = await gang_of(
        subject,
        'cp "$DATA_DIR/a.txt" "$RESULT_DIR/b.txt"',
        inputs=(DataMove("pvc://shared/sets", "$DATA_DIR"),),
        outputs=(DataMove("$RESULT_DIR", "pvc://shared/results"),),
    )
    await run_to_its_end(subject, gang)
    assert (claim.parent / "results" / "b.txt").read_text() == "from the claim"
