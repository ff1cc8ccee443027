"""Stores: what a record may say, who may use it, and where its keys are found."""

import base64
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gangline import operations
from gangline.data.unpacking import PermanentError
from gangline.errors import ConflictError, InvalidInputError, PermissionDeniedError
from gangline.kinds.store import STORE
from gangline.model import DEFAULT_TENANT, DataMove, JobId, Tenant
from gangline.model.kinds.data_store import DataStore
from gangline.model.record import RecordId
from gangline.operations.stores import RecordedStores
from gangline.testing.builders import make_spec
from tests.operations.fakes import Office

OTHER = Tenant("other")
LAKE = DataStore(
    name="lake", address="s3://bucket/sets", endpoint="http://host", region="eu-1", keys="gangline-store-lake"
)


def secret(**texts: str) -> dict[str, object]:
    return {"kind": "Secret", "metadata": {"name": "gangline-store-lake"}, "stringData": texts}


@pytest.fixture
def stores(office: Office, tmp_path: Path) -> RecordedStores:
    office.object_directory = tmp_path / "objects"
    return RecordedStores(office.store, office.object_directory)


async def add(office: Office, spec: DataStore = LAKE, **keys: str) -> None:
    await operations.create_record(office.context(), STORE, RecordId(f"{spec.tenant}-{spec.name}"), spec)
    if keys:
        await operations.bring_object(office.context(), spec.tenant, secret(**keys))


async def test_a_store_is_found_with_its_keys(office: Office, stores: RecordedStores) -> None:
    await add(office, key="the-key", secret="the-secret")
    found = await stores.find(DEFAULT_TENANT, "lake", "s3://bucket/sets/mnist")
    assert found is not None
    name, given = found
    assert (name, given.endpoint, given.region, given.key, given.secret, given.token) == (
        *("lake", "http://host", "eu-1"),
        *("the-key", "the-secret", ""),
    )


async def test_keys_of_a_secret_that_kubectl_made_are_read_too(office: Office, stores: RecordedStores) -> None:
    await add(office)
    data = {"secret": base64.b64encode(b"the-secret").decode()}
    document = {"kind": "Secret", "metadata": {"name": "gangline-store-lake"}, "data": data}
    await operations.bring_object(office.context(), DEFAULT_TENANT, document)
    found = await stores.find(DEFAULT_TENANT, "lake", "s3://bucket/sets")
    assert found is not None
    assert found[1].secret == "the-secret"


async def test_another_tenant_has_neither_the_store_nor_its_keys(office: Office, stores: RecordedStores) -> None:
    await add(office, key="the-key", secret="the-secret")
    with pytest.raises(PermanentError, match="there is no store 'lake'"):
        await stores.find(OTHER, "lake", "s3://bucket/sets")
    # A store of its own that names the same Secret has the other's, which is not there.
    await add(office, replace(LAKE, tenant=OTHER))
    with pytest.raises(PermanentError, match="the keys of store 'lake' are not here"):
        await stores.find(OTHER, "lake", "s3://bucket/sets")


async def test_a_caller_of_one_tenant_sees_no_store_of_another(office: Office) -> None:
    await add(office)
    with pytest.raises(PermissionDeniedError):
        await operations.list_records(office.context(tenants=frozenset({OTHER})), STORE, DEFAULT_TENANT, limit=10)


@pytest.mark.parametrize("address", ["s3://bucket", "s3://bucket/setsuna", "s3://other/sets", "gs://bucket/sets"])
async def test_keys_are_not_used_for_what_is_not_in_the_store(
    office: Office, stores: RecordedStores, address: str
) -> None:
    await add(office, replace(LAKE, default=True), key="the-key")
    with pytest.raises(PermanentError, match="store 'lake' is for s3://bucket/sets"):
        await stores.find(DEFAULT_TENANT, "lake", address)
    assert await stores.find(DEFAULT_TENANT, None, address) is None


async def test_only_the_default_is_used_without_a_name(office: Office, stores: RecordedStores) -> None:
    await add(office, replace(LAKE, keys=""))
    assert await stores.find(DEFAULT_TENANT, None, "s3://bucket/sets") is None
    await operations.edit_record(office.context(), STORE, replace(LAKE, keys="", default=True))
    found = await stores.find(DEFAULT_TENANT, None, "s3://bucket/sets/x")
    assert found is not None
    assert (found[0], found[1].endpoint, found[1].secret) == ("lake", "http://host", "")


async def test_there_is_one_default_for_a_scheme_of_a_tenant(office: Office) -> None:
    await add(office, replace(LAKE, default=True))
    with pytest.raises(ConflictError, match="gangline store edit lake --default false"):
        await add(office, replace(LAKE, name="pond", default=True))
    await add(office, replace(LAKE, name="ocean", address="gs://bucket", default=True))
    await add(office, replace(LAKE, tenant=OTHER, default=True))
    await operations.edit_record(office.context(), STORE, replace(LAKE, default=True, region="eu-2"))


@pytest.mark.usefixtures("stores")
async def test_a_store_that_an_unfinished_job_names_stays(office: Office) -> None:
    await add(office)
    await add(office, replace(LAKE, tenant=OTHER))
    job = make_spec(inputs=(DataMove("s3://bucket/sets", "$DATA_DIR", store="lake"),))
    await operations.submit(office.context(), JobId("job-1"), job)
    with pytest.raises(ConflictError, match="unfinished jobs: mnist"):
        await operations.delete_record(office.context(), STORE, DEFAULT_TENANT, "lake")
    await operations.delete_record(office.context(), STORE, OTHER, "lake")


async def test_the_keys_go_with_the_store_and_a_secret_of_others_stays(office: Office, stores: RecordedStores) -> None:
    await add(office, key="the-key")
    folder = stores.objects / DEFAULT_TENANT / "secrets"
    kept = folder / "gangline-store-lake.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await add(office, replace(LAKE, name="pond"))  # names the Secret that was made for the lake
    await operations.delete_record(office.context(), STORE, DEFAULT_TENANT, "pond")
    assert kept.exists()
    await operations.delete_record(office.context(), STORE, DEFAULT_TENANT, "lake")
    assert not kept.exists()


@pytest.mark.parametrize("text", ['{"stringData": {"secret": "the-secret"', '["the-secret"]', '{"data": {"key": "%"}}'])
async def test_a_damaged_secret_is_named_and_its_content_is_not(
    office: Office, stores: RecordedStores, text: str
) -> None:
    await add(office, key="the-key")
    folder = stores.objects / DEFAULT_TENANT / "secrets"
    (folder / "gangline-store-lake.json").write_text(text)
    with pytest.raises(PermanentError, match="Secret 'gangline-store-lake' of store 'lake' cannot be read") as refusal:
        await stores.find(DEFAULT_TENANT, "lake", "s3://bucket/sets")
    assert "the-secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"address": "s3://the-key:the-secret@bucket"}, "spec.address"),
        ({"address": "ftp://bucket"}, "spec.address"),
        ({"endpoint": "https://the-key:the-secret@host"}, "spec.endpoint"),
        ({"endpoint": "https://host?sig=the-secret"}, "spec.endpoint"),
        ({"name": "Lake"}, "metadata.name"),
    ],
    ids=str,
)
def test_what_may_hold_a_key_is_refused_without_being_shown(fields: dict[str, str], want: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        replace(LAKE, **fields)
    assert refusal.value.field == want
    assert "the-secret" not in str(refusal.value)


def test_a_store_for_all_buckets_covers_any_and_no_other_scheme() -> None:
    store = replace(LAKE, address="s3://")
    assert store.covers("s3://anything/below")
    assert not store.covers("gs://anything")
    assert json.dumps(STORE.format.write(store)).count("secret") == 0
