"""Object stores for the tests: real servers, built once from pinned modules into the project's cache."""

import fcntl
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from gangline.data.credentials import StoreCredentials
from tests.data.gcs_writes import writable

MODULES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
    "rclone": "github.com/rclone/rclone@v1.75.1",
}
AZURITE = "azurite@3.37.0"
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Not a secret: the emulator's own, printed in its manual."""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "gangline", "servers")


def program(name: str) -> Path:
    """Build a Go program, or find it built. Where there is no Go or no proxy the tests that need it are skipped."""
    module = MODULES[name]
    folder = _cache() / f"{name}-{module.rpartition('@')[2]}"
    built = folder / name
    if not built.exists():
        go = shutil.which("go")
        if go is None:
            _give_up(f"{name} is built with Go, and there is none")
        with _alone(folder):
            if not built.exists():
                environment = {**os.environ, "GOBIN": str(folder / "partial"), "CGO_ENABLED": "0"}
                command = [str(go), "install", "-trimpath", "-ldflags", "-s -w", module]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    _give_up(f"{module} cannot be built: {done.stderr[-500:]}")
                (folder / "partial" / name).rename(built)
    return built


def azurite() -> list[str]:
    """The command that starts Azurite, installed once."""
    folder = _cache() / AZURITE.replace("@", "-")
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        _give_up("Azurite needs Node.js, and there is none")
    with _alone(folder):
        if not script.exists():
            command = [str(npm), "install", "--no-audit", "--no-fund", "--prefix", str(folder), AZURITE]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                _give_up(f"{AZURITE} cannot be installed: {done.stderr[-500:]}")
    return [str(node), str(script)]


@dataclass(frozen=True, slots=True)
class Server:
    """A store that runs: ``folder`` holds its buckets as directories, where it has such."""

    address: str
    credentials: StoreCredentials
    folder: Path
    process: "subprocess.Popen[bytes]"

    def at(self, endpoint: str) -> StoreCredentials:
        """The same store behind another endpoint, a proxy."""
        given = self.credentials
        return StoreCredentials(
            endpoint=endpoint, region=given.region, key=given.key, secret=given.secret, token=given.token
        )


@contextmanager
def s3_server(folder: Path, port: int | None = None) -> Iterator[Server]:
    """An S3 server over a directory, with a bucket called 'bucket'."""
    (folder / "bucket").mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    environment = {**os.environ, "ROOT_ACCESS_KEY": "tester", "ROOT_SECRET_KEY": "very secret"}
    options = ["--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive"]
    command = [str(program("versitygw")), *options, "posix", str(folder)]
    endpoint = f"http://127.0.0.1:{port}"
    credentials = StoreCredentials(endpoint=endpoint, key="tester", secret="very secret")
    with _running(command, port, environment) as process:
        yield Server("s3://bucket", credentials, folder, process)


@contextmanager
def gs_server(folder: Path) -> Iterator[Server]:
    """A server that speaks as Google Cloud Storage does, with a bucket called 'bucket'."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    (folder / "bucket").mkdir(parents=True, exist_ok=True)
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    command = [
        str(program("fake-gcs-server")),
        *options,
        "-external-url",
        endpoint,
        "-public-host",
        f"127.0.0.1:{port}",
    ]
    with _running(command, port, dict(os.environ)) as process:
        bucket = urllib.request.Request(
            f"{endpoint}/storage/v1/b?project=x", b'{"name": "bucket"}', {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(bucket, timeout=10):
            pass
        with writable(port) as front:
            credentials = StoreCredentials(endpoint=f"http://127.0.0.1:{front}", token="any")
            yield Server("gs://bucket", credentials, folder, process)


def give_to_gs(server: Server, name: str, content: bytes) -> None:
    """Put an object where the emulator takes one."""
    place = f"{server.credentials.endpoint}/upload/storage/v1/b/bucket/o?uploadType=media&name={quote(name, safe='')}"
    with urllib.request.urlopen(urllib.request.Request(place, content, method="POST"), timeout=30):
        pass


@contextmanager
def az_server(folder: Path) -> Iterator[Server]:
    """Azurite, with a container called 'bucket'."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--silent"]
    command = [*azurite(), *options, "--skipApiVersionCheck"]
    credentials = StoreCredentials(
        endpoint=f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}", key=AZURITE_ACCOUNT, secret=AZURITE_KEY
    )
    with _running(command, port, dict(os.environ)) as process:
        _make_container(credentials)
        yield Server("az://bucket", credentials, folder, process)


def _make_container(credentials: StoreCredentials) -> None:
    """Azure signs the making of a container as it signs the rest; obstore has no call for it, so it is signed here."""
    import base64
    import hashlib
    import hmac
    from email.utils import formatdate

    date = formatdate(usegmt=True)
    resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/bucket\nrestype:container"
    text = "PUT\n" + "\n" * 11 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{signature}",
    }
    request = urllib.request.Request(f"{credentials.endpoint}/bucket?restype=container", headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=10):
        pass


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(command: list[str], port: int, environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 180
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command[0]} does not listen"
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _give_up(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
