"""Volumes: directories of a tenant that jobs share and that outlive them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError, PermissionDeniedError
from gangline.kinds.volume import VOLUME
from gangline.model import DEFAULT_TENANT, DataMove, JobId, Tenant
from gangline.model.jobs.spec import CheckpointRule
from gangline.model.kinds.volume import Access, Volume
from gangline.model.record import RecordId
from gangline.testing.builders import make_role, make_spec
from tests.operations.fakes import Office

OTHER = Tenant("other")
SHARED = Volume(name="shared")


@pytest.fixture
def claims(office: Office, tmp_path: Path) -> Path:
    office.claim_directory = tmp_path / "claims"
    return office.claim_directory


def names(claims: Path) -> set[str]:
    return {str(path.relative_to(claims)) for path in claims.glob("*/*")}


async def create(office: Office, spec: Volume = SHARED) -> None:
    await operations.create_record(office.context(), VOLUME, RecordId(f"{spec.tenant}-{spec.name}"), spec)


async def test_a_volume_is_a_directory_of_its_tenant_until_it_is_deleted(office: Office, claims: Path) -> None:
    await create(office)
    await create(office, replace(SHARED, tenant=OTHER))
    assert names(claims) == {"default/shared", "other/shared"}
    (claims / "default" / "shared" / "deep").mkdir()
    await operations.delete_record(office.context(), VOLUME, DEFAULT_TENANT, "shared")
    assert names(claims) == {"other/shared"}


async def test_a_caller_of_another_tenant_may_not_touch_it(office: Office, claims: Path) -> None:
    await create(office)
    with pytest.raises(PermissionDeniedError):
        await operations.delete_record(office.context(tenants=frozenset({OTHER})), VOLUME, DEFAULT_TENANT, "shared")
    assert (claims / "default" / "shared").is_dir()


TEMPLATE = json.dumps({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}]}})


@pytest.mark.parametrize(
    "fields",
    [
        {"roles": (make_role(pod_template_json=TEMPLATE),)},
        {"inputs": (DataMove("pvc://shared/sets", "$DATA_DIR"),)},
        {"outputs": (DataMove("$RESULT_DIR", "pvc://shared"),)},
        {"checkpoints": CheckpointRule(to="pvc://shared/runs")},
    ],
    ids=["mounted", "read", "written", "checkpoints"],
)
async def test_what_an_unfinished_job_uses_is_not_deleted(
    office: Office, claims: Path, fields: dict[str, object]
) -> None:
    await create(office)
    await create(office, replace(SHARED, tenant=OTHER))
    await operations.submit(office.context(), JobId("job-1"), make_spec(**fields))
    with pytest.raises(ConflictError, match="volume 'shared' is in use by mnist"):
        await operations.delete_record(office.context(), VOLUME, DEFAULT_TENANT, "shared")
    assert (claims / "default" / "shared").is_dir()
    await operations.delete_record(office.context(), VOLUME, OTHER, "shared")


def test_on_a_cluster_it_is_a_claim() -> None:
    (claim,) = VOLUME.claims(replace(SHARED, size="1Gi", access=Access.ONCE, storage_class="fast"))
    assert claim["metadata"] == {"name": "shared"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }


async def test_an_export_that_is_mounted_is_the_volume_and_keeps_its_files(
    office: Office, claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounted").mkdir()
    mounts = {"filer:/sets": str(tmp_path / "mounted")}
    monkeypatch.setattr("gangline.operations.objects.mount_point", lambda export: mounts[export])
    await create(office, replace(SHARED, nfs="nfs://filer/sets/"))
    (claims / "default" / "shared" / "a").write_text("kept")
    await operations.delete_record(office.context(), VOLUME, DEFAULT_TENANT, "shared")
    assert names(claims) == set()
    assert (tmp_path / "mounted" / "a").read_text() == "kept"


async def test_an_export_that_is_not_mounted_is_refused_with_what_to_do(office: Office, claims: Path) -> None:
    with pytest.raises(InvalidInputError, match="mount -t nfs no-such-filer:/sets DIR"):
        await create(office, replace(SHARED, nfs="nfs://no-such-filer/sets"))
    assert names(claims) == set()
    await create(office)
    assert (claims / "default" / "shared").is_dir(), "the name is free"


def test_on_a_cluster_an_export_is_bound_to_the_claim_and_kept_when_that_goes() -> None:
    export, claim = VOLUME.claims(replace(SHARED, tenant=OTHER, nfs="nfs://filer/sets"))
    assert claim["spec"]["volumeName"] == export["metadata"]["name"] == "gangline-other-shared"
    assert claim["spec"]["storageClassName"] == export["spec"]["storageClassName"] == ""
    assert export["spec"]["nfs"] == {"server": "filer", "path": "/sets"}
    assert export["spec"]["claimRef"] == {"namespace": "other", "name": "shared"}
    assert export["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


@pytest.mark.parametrize("address", ["filer:/sets", "nfs://filer", "nfs:///sets", "nfs://a b/c", "s3://filer/sets"])
def test_an_export_is_an_address(address: str) -> None:
    with pytest.raises(InvalidInputError, match="is not an export"):
        replace(SHARED, nfs=address)


@pytest.mark.parametrize("size", ["0", "many", "-1Gi", "1.5Gi"])
def test_a_size_is_a_size(size: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a size"):
        replace(SHARED, size=size)
