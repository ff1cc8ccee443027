"""Services: what not everybody may ask for."""

from dataclasses import replace

import pytest

from gangline import operations
from gangline.errors import PermissionDeniedError
from gangline.kinds.service import SERVICE
from gangline.model import DEFAULT_TENANT
from gangline.model.kinds.service import Access, ServiceSpec
from gangline.model.record import RecordId
from tests.operations.fakes import Office

PLAIN = ServiceSpec(name="digits", model="model://mnist")
WITH_FILES = replace(PLAIN, access=Access(port=8443, certificate="/etc/team.pem", key="/etc/team.key"))
MINE = frozenset({DEFAULT_TENANT})


async def test_files_of_the_services_machine_are_for_its_operators_to_name(office: Office) -> None:
    with pytest.raises(PermissionDeniedError):
        await operations.create_record(office.context(tenants=MINE), SERVICE, RecordId("s"), WITH_FILES)
    await operations.create_record(office.context(tenants=MINE), SERVICE, RecordId("s"), PLAIN)
    with pytest.raises(PermissionDeniedError):
        await operations.edit_record(office.context(tenants=MINE), SERVICE, WITH_FILES)
    assert (await operations.edit_record(office.context(), SERVICE, WITH_FILES)).spec.access.port == 8443


async def test_a_member_may_change_the_rest_of_a_service_that_has_files(office: Office) -> None:
    await operations.create_record(office.context(), SERVICE, RecordId("s"), WITH_FILES)
    wanted = replace(WITH_FILES, access=replace(WITH_FILES.access, timeout_seconds=5.0))
    changed = await operations.edit_record(office.context(tenants=MINE), SERVICE, wanted)
    assert changed.spec.access.timeout_seconds == 5.0
