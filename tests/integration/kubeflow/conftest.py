"""A local service with its kubeconfig, and the unmodified Kubeflow Training SDK in an environment of its own."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gangline.cli.kubeconfig import kubeconfig, write_kubeconfig
from gangline.sdk import Client
from gangline.sdk.embedded import EmbeddedTransport

SDK = "kubeflow-training==1.9.4"


@dataclass(frozen=True)
class LocalService:
    """A running service: our own client to it, and the kubeconfig for everybody else's."""

    client: Client
    kubeconfig: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    place = tmp_path_factory.mktemp("service")
    transport = EmbeddedTransport(home=place / "home")
    client = Client(settings=transport.settings, transport=transport)
    write_kubeconfig(kubeconfig(transport.settings.kubernetes_file, namespace="default"), place / "kubeconfig")
    yield LocalService(client=client, kubeconfig=place / "kubeconfig")
    for job in client.list(limit=None):
        client.delete(job.id)
    client.close()


@pytest.fixture(scope="session")
def sdk_python() -> Path:
    """The interpreter of an environment that has the SDK (33 MB, made once in a few seconds, kept in the cache)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gangline" / "test-venvs"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / hashlib.sha256(f"{SDK} {sys.version}".encode()).hexdigest()[:16]
    with (cache / f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
            python = ["--python", str(place / "bin" / "python")]
            subprocess.run([*uv, "pip", "install", "--quiet", *python, SDK], check=True)
            (place / "complete").touch()
    return place / "bin" / "python"
