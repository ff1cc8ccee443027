"""A real server in an environment with the libraries that its models need, as its users install them."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments import environment_with

PROJECT = Path(__file__).parents[2]
SERVER = ("aiohttp==3.14.5", "msgspec==0.22.0", "numpy==2.4.6", "grpcio==1.85.1", "protobuf==7.36.2")
LIBRARIES = ("onnxruntime==1.31.1", "onnx==1.23.2", "scikit-learn==1.9.1", "xgboost-cpu==3.2.0")
CLIENT = ("tritonclient[all]==2.73.0",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server that runs."""

    process: "subprocess.Popen[str]"
    address: str
    rpc_address: str
    log: Path

    def workers(self) -> list[int]:
        """The processes that answer."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def memory_bytes(self) -> int:
        """What the largest of them holds."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.workers()]
        return max(pages) * os.sysconf("SC_PAGE_SIZE")


Start = Callable[..., Serving]


@pytest.fixture(scope="session")
def library_python() -> Path:
    """An interpreter with the libraries of models."""
    return environment_with(*SERVER, *LIBRARIES)


@pytest.fixture(scope="session")
def client_python() -> Path:
    """An interpreter with Triton's clients, which need other versions."""
    return environment_with(*CLIENT)


@pytest.fixture
def start(tmp_path: Path, library_python: Path) -> Iterator[Start]:
    """Start a server with options of its command line; it ends with the test."""
    with started_servers(tmp_path, library_python) as start:
        yield start


@contextmanager
def started_servers(place: Path, python: Path) -> Iterator[Start]:
    """Give a function that starts a server with options of its command line; all of them end with the block."""
    started: list[subprocess.Popen[str]] = []
    metadata = place / "metadata" / "gangline-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: gangline\nVersion: 0.1.0\n")

    def start(*options: str) -> Serving:
        log = place / f"server-{len(started)}.log"
        environment = os.environ | {"PYTHONPATH": f"{PROJECT / 'src'}:{metadata.parent}", "PYTHONUNBUFFERED": "1"}
        command = [str(python), "-m", "gangline.serve", "--port", "0", "--grpc-port", "0", *options]
        with log.open("w") as file:
            process = subprocess.Popen(command, stderr=file, stdout=file, env=environment, text=True, cwd=place)
        started.append(process)
        found = wait_for(lambda: re.search(r"at (http://\S+)\ngRPC at (\S+)", log.read_text()), process, log)
        return Serving(process=process, address=found[1], rpc_address=found[2], log=log)

    try:
        yield start
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(
    found: Callable[[], "re.Match[str] | None"], process: "subprocess.Popen[str]", log: Path
) -> "re.Match[str]":
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (match := found()) is not None:
            return match
        threading.Event().wait(0.05)
    raise AssertionError(log.read_text())
