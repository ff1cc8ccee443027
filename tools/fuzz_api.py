"""Fuzz the whole REST interface by its own description: ``python -m tools.fuzz_api --requests 100000``.

With ``--pages`` it is the dashboard that is asked: every route of it, with every field that its forms have and others.

Starts a service of its own (a temporary home, one tenant, a certificate-free loopback port), makes an admin's token and
lets schemathesis ask as much as it is told to. Ends with schemathesis's exit code: 0 if nothing was answered with 5xx
and every answer fits its schema.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gangline.api.rest.application import PREFIX, all_operations
from gangline.api.rest.openapi import openapi
from gangline.model.team.access import Role
from gangline.sdk import Client
from gangline.web.application import all_operations as page_operations
from gangline.web.frame import PREFIX as PAGES_PREFIX

_FIELDS = (
    *(
        "after",
        "as",
        "code",
        "column",
        "command",
        "days",
        "env",
        "file",
        "hours",
        "job",
        "kind",
        "label",
        "like",
        "live",
    ),
    *("name", "part", "phase", "priority", "queue", "quota", "replicas", "role", "sort", "sure", "tenant", "text"),
    *("token", "values", "worker", "workers", "path", "body", "add-nodes", "remove-nodes", "cpu", "memory", "gpus"),
)
"""What forms and queries of the dashboard have."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", action="store_true", help="the dashboard instead of the REST interface")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fz") as folder:
        environment = _environment(Path(folder))
        command = [sys.executable, "-m", "gangline", "server", "run", "--listen", "127.0.0.1:0", "--plain-http"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                return _fuzz(_address(server), Path(folder), wanted)
            finally:
                server.terminate()


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GANGLINE_")}
    places = {"HOME": str(folder), "GANGLINE_HOME": f"{folder}/h", "GANGLINE_RUNTIME_DIRECTORY": f"{folder}/r"}
    # The interpreter need not be where other users can run it: no job is run here.
    return {**kept, **places, "GANGLINE_SYSTEM_USERS": "none", "GANGLINE_REQUESTS_PER_SECOND": "1000000"}


def _address(server: "subprocess.Popen[str]") -> str:
    for line in server.stderr or ():
        if found := re.search(r"serving a team on (\S+)", line):
            return found[1]
    raise SystemExit("the service did not start")


def _fuzz(address: str, folder: Path, wanted: argparse.Namespace) -> int:
    client = Client(f"unix:{folder}/r/service.sock")
    token = client.team.create_token("fuzz", role=Role.OPERATOR, tenant="", seconds=86_400).text
    described = _pages() if wanted.pages else openapi(all_operations(), PREFIX)
    checks = "not_a_server_error" if wanted.pages else CHECKS
    each = max(wanted.requests // sum(map(len, described["paths"].values())), 1)
    program = Path(sys.executable).with_name("schemathesis")
    document = folder / "openapi.json"
    document.write_text(json.dumps(_within_reach(_without_streams(described))))
    options = (
        "--phases",
        "coverage,fuzzing",
        "--checks",
        checks,
        "--max-examples",
        str(each),
        "--seed",
        str(wanted.seed),
    )
    header = f"Authorization: Bearer {token}"
    command = [str(program), "run", str(document), "--url", address, "-H", header, *options]
    return subprocess.run(command, check=False).returncode


def _pages() -> dict[str, Any]:
    """Describe every route of the dashboard: whatever may stand in its path, its query and its forms."""
    paths: dict[str, dict[str, Any]] = {}
    for row in page_operations():
        if row.path == "/logout":
            continue  # whoever asks has no session to end
        names = re.findall(r"{(\w+)", row.path)
        text = {"type": "string"}
        parameters = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
        described: dict[str, Any] = {"parameters": parameters, "responses": {"default": {"description": "a page"}}}
        if row.method == "GET":
            parameters += [{"name": name, "in": "query", "schema": text} for name in _FIELDS]
        else:
            schema = {"type": "object", "properties": dict.fromkeys(_FIELDS, text)}
            described["requestBody"] = {"content": {"application/x-www-form-urlencoded": {"schema": schema}}}
        path = PAGES_PREFIX + re.sub(r"{(\w+):[^}]*}", r"{\1}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = described
    return {"openapi": "3.1.0", "info": {"title": "The dashboard", "version": "1"}, "paths": paths}


def _within_reach(document: dict[str, Any]) -> dict[str, Any]:
    """Speak mostly of a few names in one tenant, so that what one request makes is found by another."""
    names = {"type": "string", "enum": ["a", "b", "c", "default"]}
    usual = {"tenant": {"type": "string", "enum": ["default"]}, "name": names, "job": names, "id": names}
    usual |= {"verb": {"type": "string", "enum": ["stop", "resume", "promote", "rollback", "pause", "add"]}}
    usual |= {"If-Match": {"type": "string", "enum": ["*", '"a.1"']}, "Idempotency-Key": names}
    for rows in document["paths"].values():
        for row in rows.values():
            for each in row["parameters"]:
                if each["name"] in usual:
                    each["schema"] = {"anyOf": [usual[each["name"]], usual[each["name"]], each["schema"]]}
            metadata = row.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            metadata = metadata.get("properties", {}).get("metadata", {}).get("properties", {})
            if "name" in metadata:
                metadata["name"] = names
                row["requestBody"]["content"]["application/json"]["schema"]["properties"]["metadata"] |= {
                    "additionalProperties": False
                }
    return document


def _without_streams(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what asks for a stream without an end: a fuzzer would wait for it."""
    for rows in document["paths"].values():
        for row in rows.values():
            row["parameters"] = [each for each in row["parameters"] if each["name"] not in ("watch", "follow")]
    return document


if __name__ == "__main__":
    sys.exit(main())
