"""ConfigMaps and Secrets that jobs on this machine read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.operations import ObjectKind, OperationContext
from tests.operations.fakes import Office
from tests.operations.test_submission import Van

MAPS, SECRETS = ObjectKind.CONFIG_MAP, ObjectKind.SECRET


@pytest.fixture
def context(office: Office, tmp_path: Path) -> OperationContext:
    return replace(office.context(tenants=frozenset({DEFAULT_TENANT})), object_directory=tmp_path / "objects")


def test_an_object_is_kept_for_its_owner_alone(context: OperationContext, tmp_path: Path) -> None:
    operations.put_object(context, DEFAULT_TENANT, SECRETS, "keys", "{}", new=True)
    (file,) = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert file.stat().st_mode & 0o777 == 0o600
    assert operations.get_object(context, DEFAULT_TENANT, SECRETS, "keys") == "{}"
    assert operations.list_objects(context, DEFAULT_TENANT, MAPS) == ()


def test_a_new_object_never_replaces_another(context: OperationContext) -> None:
    operations.put_object(context, DEFAULT_TENANT, MAPS, "words", "1", new=True)
    with pytest.raises(ConflictError, match="already exists"):
        operations.put_object(context, DEFAULT_TENANT, MAPS, "words", "2", new=True)
    operations.put_object(context, DEFAULT_TENANT, MAPS, "words", "3", new=False)
    assert operations.list_objects(context, DEFAULT_TENANT, MAPS) == ("3",)


async def test_an_object_is_brought_to_where_its_jobs_run(context: OperationContext) -> None:
    document = {"kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}
    await operations.bring_object(context, DEFAULT_TENANT, document)
    assert json.loads(operations.get_object(context, DEFAULT_TENANT, MAPS, "words")) == document
    van = Van()
    far = replace(context, object_directory=None, uploader=van)
    await operations.bring_object(far, DEFAULT_TENANT, document)
    assert van.objects == [(DEFAULT_TENANT, document)]
    with pytest.raises(PermissionDeniedError):
        await operations.bring_object(far, Tenant("others"), document)


async def test_a_machine_keeps_no_objects_that_only_a_cluster_has_a_use_for(context: OperationContext) -> None:
    with pytest.raises(InvalidInputError, match="a Service is not kept here"):
        await operations.bring_object(context, DEFAULT_TENANT, {"kind": "Service", "metadata": {"name": "names"}})


def test_a_removed_object_is_gone(context: OperationContext) -> None:
    operations.put_object(context, DEFAULT_TENANT, MAPS, "words", "1", new=True)
    operations.delete_object(context, DEFAULT_TENANT, MAPS, "words")
    for action in (operations.get_object, operations.delete_object):
        with pytest.raises(NotFoundError):
            action(context, DEFAULT_TENANT, MAPS, "words")


@pytest.mark.parametrize("name", ["", "../keys", "Big", ".hidden", "a/b"])
def test_a_name_never_leads_elsewhere(context: OperationContext, name: str) -> None:
    with pytest.raises(InvalidInputError, match="not a valid name"):
        operations.put_object(context, DEFAULT_TENANT, MAPS, name, "1", new=False)


def test_another_tenant_and_another_keeper_are_refused(context: OperationContext, office: Office) -> None:
    with pytest.raises(PermissionDeniedError):
        operations.list_objects(context, Tenant("others"), MAPS)
    with pytest.raises(NotFoundError, match="the cluster keeps its own"):
        operations.list_objects(office.context(), DEFAULT_TENANT, MAPS)
