"""What the settings say of notifications, and what they are on a cluster."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.compose.cluster import read_secret
from gangline.compose.notifications import make_sender, read_mail_server
from gangline.controller.notifications.sending import MailServer
from gangline.errors import GanglineError, InvalidInputError
from gangline.kinds.notification import NOTIFICATION
from gangline.kube import SECRETS, KubeClient
from gangline.model import JobId, Phase, Tenant
from gangline.model.kinds.notification import Delivery, FollowedJob, NotificationSpec, NotificationStatus
from gangline.model.record import Record, RecordId
from gangline.testing.builders import START
from tests.apiserver import ApiServer
from tests.contract.kubernetes import store_over


def test_the_mail_server_is_read_from_the_settings() -> None:
    whole = {
        "host": "mail.example.org",
        "from": "gangline@example.org",
        "security": "tls",
        "user": "gangline",
        "password_file": "/etc/password",
        "domains": ["Example.org"],
    }
    assert read_mail_server(whole) == MailServer(
        host="mail.example.org",
        sender="gangline@example.org",
        port=465,
        security="tls",
        user="gangline",
        password_file=Path("/etc/password"),
        domains=("example.org",),
    )
    assert read_mail_server({}) is None


@pytest.mark.parametrize(
    ("setting", "want"),
    [
        ({"from": "a@b.org"}, "smtp.host"),
        ({"host": "x"}, "smtp.from"),
        ({"host": "x", "from": "a@b.org", "security": "some"}, "smtp.security"),
        ({"host": "x", "from": "a@b.org", "port": "many"}, "smtp.port"),
        ({"host": "x", "from": "a@b.org", "password": "top"}, "smtp.password"),
    ],
)
def test_a_wrong_mail_server_is_refused_by_its_field(setting: dict[str, object], want: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_mail_server(setting)
    assert refused.value.field == want


def test_a_private_service_goes_everywhere_and_a_teams_does_not() -> None:
    async def no_secret(tenant: Tenant, name: str) -> dict[str, str]:
        return {}

    assert make_sender(no_secret, networks="", smtp={}, private=True).networks is None
    assert make_sender(no_secret, networks="", smtp={}).networks == ()


async def test_the_controller_of_a_cluster_reads_a_secret_of_the_tenant_or_says_why_not() -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        data = {"key": base64.b64encode(b"sixteen letters!").decode()}
        await client.create(SECRETS, {"metadata": {"name": "ops"}, "data": data}, namespace="default")
        assert await read_secret(client, Tenant("default"), "ops") == {"key": "sixteen letters!"}
        with pytest.raises(GanglineError, match="there is no Secret 'other'"):
            await read_secret(client, Tenant("default"), "other")


async def test_a_custom_resource_keeps_how_far_a_notification_has_come() -> None:
    spec = NotificationSpec(name="ops", tenant=Tenant("red"), url="https://hooks.example.org/", secret="ops")
    delivery = Delivery(
        id="n-a-1",
        job="a",
        job_id=JobId("a"),
        phase=Phase.FAILED,
        previous=None,
        reason="Because",
        message="so",
        at=START,
    )
    status = NotificationStatus(
        pending=(delivery,), following={JobId("a"): FollowedJob(entries=2)}, seen_at=START, tried_at=START
    )
    async with ApiServer.running() as (_, access), KubeClient(access) as client, store_over(client) as store:
        records = store.records(NOTIFICATION)
        made = await records.create(Record(id=RecordId("n1"), spec=spec, status=NotificationStatus(), created_at=START))
        await records.save(replace(made, status=status))
        found = await records.find(Tenant("red"), "ops")
        assert found is not None
        assert (found.spec, found.status) == (spec, status)
