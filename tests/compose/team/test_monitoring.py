"""A real Prometheus reads the service, its rules are accepted, and every query of the dashboard returns data."""

import json
import os
import re
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compose.team.serving import ServiceProcess, ask, wait_for
from tools.debian import require_program

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
DEVICES = "0, NVIDIA H200, 143771, 512, 40\\n1, NVIDIA H200, 143771, 0, 0\\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("monitored")
    tool = folder / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncase \"$1\" in -L) ;; *) printf '{DEVICES}' ;; esac\n")
    tool.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="mo") as sockets:  # paths of sockets are short
        found = ServiceProcess(folder, Path(sockets), {"PATH": f"{tool.parent}:{os.environ['PATH']}"})
        try:
            found.start()
            yield found
        finally:
            found.stop()


@pytest.fixture(scope="module")
def prometheus(service: ServiceProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = require_program("prometheus", "prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "gangline.token").write_text(service.type("token", "create", "prometheus", "--monitor").strip())
    written = (MONITORING / "prometheus.yml").read_text()
    written = written.replace("15s", "1s").replace("scheme: https", "scheme: http")
    written = re.sub(r"    tls_config.*\n", "", written).replace("gpu.example.org:8470", service.address[7:])
    written = written.replace("gangline.rules.yml", str(MONITORING / "gangline.rules.yml"))
    (folder / "prometheus.yml").write_text(written)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    options = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, cwd=folder
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: ask("GET", f"{address}/-/ready", "")[0] == 200)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def query(prometheus: str, text: str) -> list[Any]:
    asked = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
    status, found, _ = ask("GET", asked, "")
    assert status == 200, found
    return [each for each in found["data"]["result"] if each["value"][1] != "NaN"]


def queries() -> list[tuple[str, str]]:
    document = json.loads((MONITORING / "gangline-dashboard.json").read_text())
    return [(panel["title"], target["expr"]) for panel in document["panels"] for target in panel["targets"]]


def test_every_query_of_the_dashboard_returns_data(service: ServiceProcess, prometheus: str) -> None:
    operator = service.type("token", "create", "chief", "--operator").strip()
    spec = {"command": ["sleep", "600"], "resources": {"cpu": "100m", "memory": "64Mi", "gpu": 1}}
    for name, gpus in (("holds", 1), ("waits", 99)):
        body = {"metadata": {"name": name}, "spec": {**spec, "resources": {**spec["resources"], "gpu": gpus}}}
        status, made, _ = ask("POST", f"{service.address}/api/v1/tenants/default/jobs?id={name}", operator, body)
        assert status == 201, made
    left = dict.fromkeys(queries())

    def all_answered() -> bool:
        # Rates need something that happens between two looks.
        ask("GET", f"{service.address}/api/v1/tenants/default/jobs/nobody", operator)
        for title, text in list(left):
            filled = text.replace("$instance", ".*").replace("$__rate_interval", "5m")
            if query(prometheus, filled):
                del left[title, text]
        return not left

    try:
        wait_for(all_answered)
    except AssertionError:
        raise AssertionError(f"no data: {sorted(left)}") from None
    finally:
        for name in ("holds", "waits"):
            ask("DELETE", f"{service.address}/api/v1/tenants/default/jobs/{name}", operator)
    (up,) = query(prometheus, 'up{job="gangline"}')
    assert up["value"][1] == "1"
    assert query(prometheus, 'gangline_tenant_gpus{tenant="default"} == 1 or gangline_tenant_gpus == 0')


def test_the_rules_are_accepted_and_evaluated(prometheus: str) -> None:
    promtool = require_program("promtool", "prometheus")
    rules = MONITORING / "gangline.rules.yml"
    checked = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    def health() -> set[str]:
        found = ask("GET", f"{prometheus}/api/v1/rules", "")[1]
        seen = {rule["health"] for group in found["data"]["groups"] for rule in group["rules"]}
        return set() if "unknown" in seen else seen

    assert wait_for(health) == {"ok"}


def test_a_monitor_reads_the_figures_and_nothing_else(service: ServiceProcess) -> None:
    monitor = service.type("token", "create", "reader", "--monitor").strip()
    status, text, _ = ask("GET", f"{service.address}/metrics", monitor)
    assert (status, "gangline_requests_total{" in text) == (200, True)
    for path in ("/api/v1/tenants/default/jobs", "/api/v1/jobs", "/api/v1/queues", "/api/v1/audit", "/api/v1/tokens"):
        assert ask("GET", f"{service.address}{path}", monitor)[0] == 403
    member = service.type("token", "create", "ci", "--tenant", "default").strip()
    assert ask("GET", f"{service.address}/metrics", member)[0] == 403
    assert ask("GET", f"{service.address}/metrics", "")[0] == 401
