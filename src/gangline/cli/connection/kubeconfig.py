"""A kubeconfig for the local service, alone or added to the one a user has."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from gangline.errors import InvalidInputError, UnreachableError

_NAME = "gangline"


def read_endpoint(file: Path) -> dict[str, str]:
    """Return the address and the token of the service that wrote this file."""
    try:
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnreachableError("the local service has no port for other clients; restart it") from error
    return found


def kubeconfig(endpoint_file: Path, *, namespace: str) -> dict[str, object]:
    """Build the kubeconfig for the service whose address and token lie in that file."""
    endpoint = read_endpoint(endpoint_file)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": {"server": _address(endpoint)}}],
        "users": [{"name": _NAME, "user": {"token": endpoint["token"]}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }


def _address(endpoint: Mapping[str, str]) -> str:
    """Write the address with the token in it: kubectl sends that of a user over TLS alone."""
    scheme, _, place = endpoint["address"].partition("://")
    return f"{scheme}://{_NAME}:{endpoint['token']}@{place}"


def write_kubeconfig(config: Mapping[str, object], file: Path) -> str:
    """Write it for its owner alone; what a file already says of other clusters stays. Returns the current context."""
    kept: dict[str, object] = {}
    if file.exists():
        try:
            found = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"not valid YAML: {error}", file=str(file)) from error
        if found is not None and not isinstance(found, dict):
            raise InvalidInputError("wrong shape", file=str(file), expected="a kubeconfig")
        kept = dict(found or {})
    merged = _with_ours(kept, config)
    text = yaml.safe_dump(merged, sort_keys=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.gangline")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        written.write(text)
    partial.replace(file)
    return str(merged["current-context"])


def _with_ours(kept: Mapping[str, object], ours: Mapping[str, object]) -> dict[str, object]:
    """Our entries instead of those of the same name; the others keep their place, and the current context its word."""
    result = {**ours, **kept}
    if not kept.get("current-context"):
        result["current-context"] = ours["current-context"]
    for section in ("clusters", "users", "contexts"):
        entries, own = kept.get(section), ours[section]
        others = [entry for entry in entries if _name(entry) != _NAME] if isinstance(entries, list) else []
        result[section] = [*others, *(own if isinstance(own, list) else [])]
    return result


def _name(entry: object) -> object:
    return entry.get("name") if isinstance(entry, Mapping) else None
