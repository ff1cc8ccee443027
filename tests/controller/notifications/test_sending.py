"""Sending to receivers that listen: what they get, what they answer, and where the service does not go."""

import asyncio
import json
import socket
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

import pytest

from gangline.controller.notifications import sending
from gangline.controller.notifications.sending import MailServer, Refusal, Sender, reachable, read_networks
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import JobId, Phase, Tenant
from gangline.model.kinds.notification import Delivery, NotificationSpec, NotificationType
from gangline.testing.builders import START, FakeClock
from tests.controller.notifications.receiver import KEY, Receiver, mail_server, receiving, verify

LOOPBACK = (ip_network("127.0.0.0/8"),)
DELIVERY = Delivery(
    id="n1-job-1-3",
    job="mnist",
    job_id=JobId("job-1"),
    phase=Phase.COMPLETED,
    previous=Phase.STORING,
    reason="Done",
    message="",
    at=START,
)


def sender(values: Mapping[str, str] | None = None, **fields: Any) -> Sender:
    async def secret_of(tenant: Tenant, name: str) -> Mapping[str, str]:
        if (tenant, name) != ("vision", "ops"):
            raise NotFoundError("secret", name)
        return {"key": KEY} if values is None else values

    return Sender(**{"secret_of": secret_of, "clock": FakeClock(), "networks": LOOPBACK, **fields})


def hook(url: str, **fields: Any) -> NotificationSpec:
    return NotificationSpec(**{"name": "ops", "tenant": Tenant("vision"), "url": url, "secret": "ops", **fields})


async def test_a_receiver_can_verify_who_sent_it_and_when() -> None:
    async with receiving(Receiver()) as receiver:
        assert await sender().send(hook(receiver.url), DELIVERY) is None
        ((headers, body),) = receiver.got
    assert headers["webhook-id"] == DELIVERY.id
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["type"] == "job.completed"
    assert verify(headers, body, START)
    assert not verify(headers, body + b" ", START)
    assert not verify({**headers, "webhook-id": "another"}, body, START)
    assert not verify(headers, body, START + 301)  # somebody sends it again
    assert not verify({**headers, "webhook-timestamp": str(int(START) + 301)}, body, START + 301)
    assert not verify(headers, body, START, key="another key, of whoever")


async def test_the_same_change_has_the_same_id_and_a_new_time_and_signature() -> None:
    clock = FakeClock()
    async with receiving(Receiver()) as receiver:
        for _ in range(2):
            await sender(clock=clock).send(hook(receiver.url), DELIVERY)
            clock.advance(600)
        (first, _), (second, body) = receiver.got
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-signature"] != second["webhook-signature"]
    assert verify(second, body, START + 600)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (200, None),
        (204, None),
        (302, Refusal("HTTP 302; redirects are not followed")),
        (307, Refusal("HTTP 307; redirects are not followed")),
        (400, Refusal("HTTP 400")),
        (410, Refusal("HTTP 410", gone=True)),
        (500, Refusal("HTTP 500")),
    ],
)
async def test_only_an_answer_of_success_is_one_and_nothing_is_followed(status: int, want: Refusal | None) -> None:
    async with receiving(Receiver([status])) as receiver:
        assert await sender().send(hook(receiver.url), DELIVERY) == want
        assert len(receiver.got) == 1


async def test_a_receiver_that_hangs_is_waited_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SEND_SECONDS", 0.3)
    async with receiving(Receiver(hangs=True)) as receiver, asyncio.timeout(20):
        assert await sender().send(hook(receiver.url), DELIVERY) == Refusal("no answer within 0.3 s")
        assert len(receiver.got) == 1


async def test_a_receiver_that_sends_header_after_header_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SEND_SECONDS", 5.0)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                writer.write(b"X-More: " + b"x" * 1000 + b"\r\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        port = server.sockets[0].getsockname()[1]
        refusal = await sender().send(hook(f"http://127.0.0.1:{port}/"), DELIVERY)
    assert refusal is not None


async def test_nobody_listening_is_said_without_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    refusal = await sender().send(hook(f"http://127.0.0.1:{port}/token"), DELIVERY)
    assert refusal is not None
    assert refusal.text.startswith("cannot connect: ")
    assert "token" not in refusal.text


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
async def test_the_services_own_machine_is_not_reached_however_it_is_written(host: str) -> None:
    async with receiving(Receiver()) as receiver:
        refusal = await sender(networks=()).send(hook(f"http://{host}:{receiver.port}/"), DELIVERY)
        assert refusal is not None
        assert not receiver.got
    if host in ("127.0.0.1", "localhost"):
        assert "not public" in refusal.text


async def test_a_name_is_judged_by_what_it_is_when_the_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(loop: object, host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    async with receiving(Receiver()) as receiver:
        url = f"http://hooks.example.org:{receiver.port}/"
        refusal = await sender(networks=()).send(hook(url), DELIVERY)
        assert refusal is not None
        assert "not public" in refusal.text
        assert await sender().send(hook(url), DELIVERY) is None
        assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        ("ff02::1", False),
    ],
)
def test_public_addresses_alone_are_reached(address: str, want: bool) -> None:
    assert reachable(address, ()) is want
    assert reachable(address, None)


def test_the_operator_allows_networks_besides() -> None:
    networks = read_networks("10.1.0.0/16, fd00::/8")
    assert reachable("10.1.2.3", networks)
    assert reachable("::ffff:10.1.2.3", networks)
    assert reachable("fd00::1", networks)
    assert not reachable("10.2.0.1", networks)
    with pytest.raises(InvalidInputError) as refused:
        read_networks("10.1.0.1/16")
    assert refused.value.field == "notification_networks"


@pytest.mark.parametrize(
    ("values", "fields", "want"),
    [
        pytest.param({}, {}, "has no value 'key'", id="no key"),
        pytest.param({"key": "short"}, {}, "key", id="short key"),
        pytest.param({"key": KEY}, {"url": ""}, "the value 'url' of Secret 'ops' cannot be used", id="no address"),
        pytest.param({"key": KEY, "url": "ftp://top/secret"}, {"url": ""}, "cannot be used", id="wrong address"),
        pytest.param({"key": KEY}, {"secret": "other"}, "no secret named 'other'", id="no Secret"),
        pytest.param({"key": KEY}, {"tenant": Tenant("speech")}, "no secret named 'ops'", id="another tenant's"),
    ],
)
async def test_what_is_wrong_with_a_secret_is_said_and_its_values_are_not(
    values: dict[str, str], fields: dict[str, Any], want: str
) -> None:
    async with receiving(Receiver()) as receiver:
        refusal = await sender(values).send(hook(**{"url": receiver.url, **fields}), DELIVERY)
        assert not receiver.got
    assert refusal is not None
    assert want in refusal.text
    assert not any(value in refusal.text for value in values.values())


async def test_slack_is_posted_to_an_address_that_only_the_secret_has() -> None:
    async with receiving(Receiver()) as receiver:
        spec = hook("", type=NotificationType.SLACK)
        assert await sender({"url": f"{receiver.url}\n"}).send(spec, DELIVERY) is None
        ((headers, body),) = receiver.got
    assert json.loads(body) == {"text": "Job mnist of tenant vision is COMPLETED: Done"}
    assert "webhook-signature" not in headers


def letter(*to: str) -> NotificationSpec:
    return NotificationSpec(name="ops", tenant=Tenant("vision"), type=NotificationType.EMAIL, to=to)


async def test_mail_is_handed_to_the_server_of_the_settings() -> None:
    got: list[str] = []
    async with mail_server(got) as port:
        server = MailServer(host="127.0.0.1", port=port, sender="gangline@example.org", security="none")
        assert await sender(mail=server).send(letter("a@example.org", "b@example.org"), DELIVERY) is None
    assert [each for each in got if each.startswith("rcpt")] == ["rcpt TO:<a@example.org>", "rcpt TO:<b@example.org>"]
    text = next(each for each in got if "Subject:" in each)
    assert "Subject: Job mnist is COMPLETED" in text
    assert "Message-ID: <n1-job-1-3@example.org>" in text
    assert "Job mnist of tenant vision is COMPLETED: Done" in text


async def test_a_refusing_mail_server_and_none_at_all_are_said() -> None:
    async with mail_server([], refusal="550 no such user here") as port:
        server = MailServer(host="127.0.0.1", port=port, sender="gangline@example.org", security="none")
        refusal = await sender(mail=server).send(letter("a@example.org"), DELIVERY)
    assert refusal is not None
    assert refusal.text == "it cannot be sent: SMTPRecipientsRefused"
    refusal = await sender().send(letter("a@example.org"), DELIVERY)
    assert refusal is not None
    assert "setting smtp" in refusal.text


async def test_a_server_that_does_not_encrypt_gets_nothing_where_that_was_asked_for() -> None:
    got: list[str] = []
    async with mail_server(got) as port:
        server = MailServer(host="127.0.0.1", port=port, sender="gangline@example.org")
        refusal = await sender(mail=server).send(letter("a@example.org"), DELIVERY)
    assert refusal is not None
    assert not any(each.startswith(("mail", "rcpt")) for each in got)


async def test_mail_goes_to_the_domains_of_the_settings_alone() -> None:
    server = MailServer(host="127.0.0.1", port=1, sender="gangline@example.org", domains=("example.org",))
    refusal = await sender(mail=server).send(letter("a@example.org", "b@elsewhere.org"), DELIVERY)
    assert refusal == Refusal("this service writes to example.org alone")
