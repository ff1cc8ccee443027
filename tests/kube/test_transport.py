"""What is tried again, how often, and what never is."""

import asyncio
import random
import socket
import ssl
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gangline.kube import (
    PODS,
    ApiError,
    ClusterAccess,
    ForbiddenError,
    KubeClient,
    KubeconfigError,
    NotFoundError,
    Request,
    RetryPolicy,
    ServerError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from gangline.kube.credentials import ClientCertificate, Credential, FixedCredential

from .conftest import IMPATIENT
from .scripted_server import ScriptedServer, pod

ONE = "/api/v1/namespaces/default/pods/p"
ALL = "/api/v1/namespaces/default/pods"


class Rotating:
    """A credential that is renewed each time the server refuses it."""

    def __init__(self) -> None:
        self.number = 1

    async def current(self) -> Credential:
        return Credential(token=f"token{self.number}")

    def forget(self) -> None:
        self.number += 1


async def test_reading_survives_server_errors(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", ONE, status=503, reason="ServiceUnavailable")
    script.refuse("GET", ONE, status=500, reason="InternalError")
    script.answer("GET", ONE, pod("p"))
    assert (await client.get(PODS, "p")).metadata.name == "p"
    assert len(script.requests) == 3


async def test_reading_survives_a_cut_connection(script: ScriptedServer, client: KubeClient) -> None:
    script.cut("GET", ONE)
    script.cut("GET", ONE)
    script.answer("GET", ONE, pod("p"))
    assert (await client.get(PODS, "p")).metadata.name == "p"


async def test_creating_is_not_repeated_after_a_server_error(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("POST", ALL, status=500, reason="InternalError")
    with pytest.raises(ServerError):
        await client.create(PODS, {"metadata": {"name": "p"}})
    assert len(script.requests) == 1


async def test_creating_is_not_repeated_after_a_cut_connection(script: ScriptedServer, client: KubeClient) -> None:
    script.cut("POST", ALL)
    with pytest.raises(UnreachableError):
        await client.create(PODS, {"metadata": {"name": "p"}})
    assert len(script.requests) == 1


async def test_creating_waits_when_the_server_asks_for_patience(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("POST", ALL, status=429, reason="TooManyRequests", headers={"Retry-After": "0"})
    script.answer("POST", ALL, pod("p"), status=201)
    assert (await client.create(PODS, {"metadata": {"name": "p"}})).metadata.name == "p"


async def test_a_server_that_stays_busy_is_given_up(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", ONE, status=429, reason="TooManyRequests", headers={"Retry-After": "0"})
    with pytest.raises(ThrottledError):
        await client.get(PODS, "p")
    assert len(script.requests) == IMPATIENT.attempts


async def test_an_unreasonable_wish_for_patience_is_handed_on(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", ONE, status=429, reason="TooManyRequests", headers={"Retry-After": "3600"})
    with pytest.raises(ThrottledError) as caught:
        await client.get(PODS, "p")
    assert caught.value.retry_after_seconds == 3600
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("error", "method", "repeated"),
    [
        pytest.param(ApiError("x", status=429), "POST", True, id="throttled create"),
        pytest.param(ApiError("x", status=503), "GET", True, id="unavailable read"),
        pytest.param(ApiError("x", status=503), "POST", False, id="unavailable create"),
        pytest.param(ApiError("x", status=404), "GET", False, id="missing"),
        pytest.param(ApiError("x", status=409), "PUT", False, id="conflict"),
        pytest.param(UnreachableError("u", "reset"), "PATCH", True, id="cut patch"),
        pytest.param(UnreachableError("u", "reset"), "POST", False, id="cut create"),
    ],
)
def test_what_is_repeated(error: ApiError | UnreachableError, method: str, *, repeated: bool) -> None:
    delay = RetryPolicy().after(error, Request(method=method, path="/"), 0, jitter=0.5)
    assert (delay is not None) is repeated


def test_waiting_grows_to_a_ceiling_and_honours_the_server() -> None:
    backoff = RetryPolicy(first_seconds=1, longest_seconds=4)
    assert [backoff.delay(attempt, jitter=1.0) for attempt in range(4)] == [1, 2, 4, 4]
    assert backoff.delay(0, jitter=0.0) == 0.5
    asked = ApiError("x", status=429, retry_after_seconds=7)
    assert backoff.after(asked, Request(method="GET", path="/"), 0, jitter=1.0) == 7


async def test_nobody_listening_is_unreachable() -> None:
    access = ClusterAccess(server="http://127.0.0.1:1")
    async with KubeClient(access, retries=IMPATIENT, randomness=random.Random(1)) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.get(PODS, "p")
    assert caught.value.url == "http://127.0.0.1:1"


async def test_refused_credential_is_renewed_once(server: tuple[ScriptedServer, str]) -> None:
    script, url = server
    script.refuse("GET", ONE, status=401, reason="Unauthorized")
    script.answer("GET", ONE, pod("p"))
    async with KubeClient(ClusterAccess(server=url, credentials=Rotating()), retries=IMPATIENT) as client:
        await client.get(PODS, "p")
    assert [request.headers["Authorization"] for request in script.requests] == ["Bearer token1", "Bearer token2"]


async def test_credential_that_stays_refused_is_reported(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", ONE, status=401, reason="Unauthorized")
    with pytest.raises(UnauthorizedError):
        await client.get(PODS, "p")
    assert len(script.requests) == 2


async def test_server_below_a_path_and_impersonation(server: tuple[ScriptedServer, str]) -> None:
    script, url = server
    script.answer("GET", "/clusters/one" + ONE, pod("p"))
    headers = (("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    access = ClusterAccess(server=f"{url}/clusters/one", impersonation=headers)
    async with KubeClient(access) as client:
        await client.get(PODS, "p")
    assert script.requests[0].headers.getall("Impersonate-Group") == ["a", "b"]
    assert script.requests[0].headers["Impersonate-User"] == "ann"


async def test_refused_web_socket_says_why(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", f"{ONE}/exec", status=403, reason="Forbidden")
    with pytest.raises(ForbiddenError, match="Forbidden: no"):
        await client.execute("p", ["true"])


async def test_missing_logs_are_an_error_not_a_line(client: KubeClient) -> None:
    with pytest.raises(NotFoundError):
        await anext(client.logs("p"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=api.example"
    names = ["-addext", "subjectAltName=DNS:api.example", "-keyout", "key.pem", "-out", "chain.pem"]
    subprocess.run(["openssl", *command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


async def test_tls_with_client_certificate_and_server_name(certificates: Path) -> None:
    chain, key = (certificates / "chain.pem").read_bytes(), (certificates / "key.pem").read_bytes()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "chain.pem"))
    context.load_cert_chain(certificates / "chain.pem", certificates / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    credentials = FixedCredential(Credential(certificate=ClientCertificate(chain, key)))
    application = web.Application()
    application.router.add_get(ONE, _answer)
    server = TestServer(application, scheme="https")
    await server.start_server(ssl=context)
    url = str(server.make_url("")).rstrip("/")
    named = ClusterAccess(server=url, authority=chain, server_name="api.example", credentials=credentials)
    assert await _reads(named)
    assert await _reads(replace(named, authority=None, verify=False))
    assert not await _reads(replace(named, server_name=None))
    assert not await _reads(replace(named, credentials=FixedCredential()))
    await server.close()


async def _answer(_: web.Request) -> web.Response:
    return web.json_response(pod("p"))


async def _reads(access: ClusterAccess) -> bool:
    async with KubeClient(access, retries=RetryPolicy(attempts=1)) as client:
        try:
            await client.get(PODS, "p")
        except UnreachableError:
            return False
    return True


async def test_a_server_that_does_not_say_goodbye_keeps_no_connection_open(certificates: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "chain.pem", certificates / "key.pem")
    done = threading.Event()

    def speak_once(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
            done.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        speaking = asyncio.create_task(asyncio.to_thread(speak_once, listener))
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        client = KubeClient(ClusterAccess(server=url, verify=False))
        lines = client.logs("p", follow=True)
        assert await anext(lines) == b"one"
        (made,) = client._transport._sockets
        await lines.aclose()
        await client.close()
        assert made.fileno() == -1
        done.set()
        await speaking


async def test_unusable_certificates_are_named() -> None:
    async with KubeClient(ClusterAccess(server="https://127.0.0.1:1", authority=b"nonsense")) as client:
        with pytest.raises(KubeconfigError, match="cannot be used"):
            await client.get(PODS, "p")


async def test_requests_go_through_the_proxy(server: tuple[ScriptedServer, str]) -> None:
    script, url = server
    script.answer("GET", ONE, pod("p"))
    async with KubeClient(ClusterAccess(server="http://cluster.invalid", proxy=url)) as client:
        await client.get(PODS, "p")
    assert script.requests[0].headers["Host"] == "cluster.invalid"
