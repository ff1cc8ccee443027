"""ConfigMaps and Secrets that jobs read: on this machine kept as they were sent, one file each, for the owner alone."""

import json
import os
import re
import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.model import Tenant
from gangline.model.identity import check_name
from gangline.operations.desk import Desk

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class ObjectKind(StrEnum):
    """What is kept; the value is the plural in paths."""

    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105  # the name of a kind


_KINDS = {"ConfigMap": ObjectKind.CONFIG_MAP, "Secret": ObjectKind.SECRET}


async def bring_object(desk: Desk, tenant: Tenant, document: Mapping[str, object]) -> None:
    """Keep an object where the jobs that refer to it will run, in place of what was brought there before."""
    metadata, kind = document.get("metadata"), str(document.get("kind"))
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str):
        raise InvalidInputError("the object has no name", field="metadata.name", expected="a name")
    if desk.courier is not None:
        desk.caller.check(tenant)
        await desk.courier.send_object(tenant, document)
    elif kind in _KINDS:
        put_object(desk, tenant, _KINDS[kind], name, json.dumps(document), new=False)
    else:
        raise InvalidInputError(f"a {kind} is not kept here", field="kind", expected=" or ".join(_KINDS))


def put_object(desk: Desk, tenant: Tenant, kind: ObjectKind, name: str, text: str, *, new: bool) -> None:
    """Keep an object; ``new`` refuses to replace one of that name."""
    file = _file(desk, tenant, kind, name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = file.with_name(f".{secrets.token_hex(8)}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        written.write(text)
    try:
        if new:
            os.link(partial, file)
        else:
            partial.replace(file)
    except FileExistsError as error:
        raise ConflictError(f"{kind} '{name}' already exists") from error
    finally:
        partial.unlink(missing_ok=True)


def get_object(desk: Desk, tenant: Tenant, kind: ObjectKind, name: str) -> str:
    """Return an object as it was kept."""
    try:
        return _file(desk, tenant, kind, name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(kind, name) from error


def list_objects(desk: Desk, tenant: Tenant, kind: ObjectKind) -> tuple[str, ...]:
    """Return every object of a kind, by name."""
    folder = _folder(desk, tenant, kind)
    files = sorted(folder.glob("[a-z0-9]*.json")) if folder.exists() else []
    return tuple(file.read_text(encoding="utf-8") for file in files)


def delete_object(desk: Desk, tenant: Tenant, kind: ObjectKind, name: str) -> None:
    """Remove an object; jobs that run keep what they were given."""
    try:
        _file(desk, tenant, kind, name).unlink()
    except FileNotFoundError as error:
        raise NotFoundError(kind, name) from error


def _file(desk: Desk, tenant: Tenant, kind: ObjectKind, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"'{name}' is not a valid name", field="metadata.name", expected="a DNS subdomain")
    return _folder(desk, tenant, kind) / f"{name}.json"


def _folder(desk: Desk, tenant: Tenant, kind: ObjectKind) -> Path:
    desk.caller.check(tenant)
    check_name(tenant, "metadata.namespace")
    if desk.object_directory is None:
        raise NotFoundError("path", kind, hint="the cluster keeps its own")
    return desk.object_directory / tenant / kind
