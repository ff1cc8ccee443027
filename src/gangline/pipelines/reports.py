"""What a step says of its outputs when it has ended, and what that means.

A report has what the program's own report says (``said``), the files of output parameters, and digests of artefacts. On
one machine it is JSON; out of a pod, whose end carries little, the same files come packed.
"""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gangline.pipelines.placeholders import RESULTS
from gangline.pipelines.values import Json

SAID = "said"
PARAMETER = "parameter:"
DIGEST = "digest:"
MISSING = "missing"
"""What a report of a step that could not begin calls the address at which an artefact no longer is."""
RESULTS_NAME = "results"
"""What a report calls the directory of results: places of outputs begin with it."""


def outputs_of(report: str, ordered: str) -> dict[str, Json]:
    """Return parameters and artefacts of a step; raises ValueError for a report that is not one.

    ``ordered`` is what the step was told of its outputs. The program's own report counts more than what it left in the
    places that it was given.
    """
    files = _files(report)
    order = json.loads(ordered.replace(RESULTS, files.get(RESULTS_NAME, RESULTS)))
    said = json.loads(files[SAID]) if files.get(SAID) else {}
    parameters = {
        name: files[f"{PARAMETER}{name}"] for name in order.get("parameters", {}) if f"{PARAMETER}{name}" in files
    }
    known = order.get("artifacts", {})
    artifacts = {name: [artifact] for name, artifact in known.items()}
    for name, found in (said.get("artifacts") or {}).items():
        artifacts[name] = [{**known.get(name, {}), **each} for each in found.get("artifacts", ())]
    made = {name: [_located(each, files, order) for each in several] for name, several in artifacts.items()}
    return {"parameters": {**parameters, **(said.get("parameterValues") or {})}, "artifacts": made}


def missing_in(report: str) -> str:
    """Return the address of an artefact that a step did not find any more, if that is why it failed."""
    try:
        return _files(report).get(MISSING, "")
    except (ValueError, EOFError, OSError):
        return ""


def _located(artifact: Mapping[str, Json], files: Mapping[str, str], order: Mapping[str, Any]) -> dict[str, Json]:
    """Add the digest of an artefact, and its address if it was stored."""
    uri = str(artifact.get("uri", ""))
    found = {**artifact, "digest": files.get(f"{DIGEST}{uri}", "")}
    outputs = f"{files.get(RESULTS_NAME)}/outputs/"
    if order.get("stored") and uri.startswith(outputs):
        found["uri"] = f"{order['stored']}/{uri.removeprefix(outputs)}"
    return found


def _files(report: str) -> dict[str, str]:
    if not report:
        return {}
    form, _, text = report.partition(":")
    if form not in ("gzip", "plain"):
        found = json.loads(report)
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise ValueError("it is not a mapping of texts")
        return found
    data = base64.b64decode(text)
    return dict(_unpacked(gzip.decompress(data) if form == "gzip" else data))


def _unpacked(data: bytes) -> Iterator[tuple[str, str]]:
    """Return the files of a packed report: a line with name and length, then the content."""
    while data:
        line, _, data = data.partition(b"\n")
        name, _, length = line.decode().rpartition(" ")
        yield name, data[: int(length)].decode()
        data = data[int(length) :]
