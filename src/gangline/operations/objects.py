"""ConfigMaps and Secrets that jobs read: on this machine kept as they were sent, one file each, for the owner alone."""

import asyncio
import base64
import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from gangline.data.nfs import mount_point
from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.model import Tenant
from gangline.model.identity import check_name
from gangline.operations.context import OperationContext

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class ObjectKind(StrEnum):
    """What is kept; the value is the plural in paths."""

    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105  # the name of a kind


_KINDS = {"ConfigMap": ObjectKind.CONFIG_MAP, "Secret": ObjectKind.SECRET}


async def bring_object(context: OperationContext, tenant: Tenant, document: Mapping[str, object]) -> None:
    """Keep an object where the jobs that refer to it will run, in place of what was brought there before."""
    metadata, kind = document.get("metadata"), str(document.get("kind"))
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str):
        raise InvalidInputError("the object has no name", field="metadata.name", expected="a name")
    if context.uploader is not None:
        context.caller.check(tenant)
        await context.uploader.send_object(tenant, document)
    elif kind in _KINDS:
        put_object(context, tenant, _KINDS[kind], name, json.dumps(document), new=False)
    else:
        raise InvalidInputError(f"a {kind} is not kept here", field="kind", expected=" or ".join(_KINDS))


async def bring_claim(context: OperationContext, tenant: Tenant, claim: Mapping[str, Any]) -> None:
    """Make what a volume stands for: a directory here, a claim on a cluster."""
    context.caller.check(tenant)
    if context.uploader is not None:
        await context.uploader.send_object(tenant, claim)
        return
    folder = _claim_folder(context, tenant, claim)
    export = claim["spec"].get("nfs")
    if context.rehearsal:
        return

    def make() -> None:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if export is not None:
            folder.symlink_to(_mounted_export(export["server"], export["path"]))
        else:
            folder.mkdir(mode=0o700, exist_ok=True)

    await context.among_files(tenant, make)


async def take_claim_away(context: OperationContext, tenant: Tenant, claim: Mapping[str, Any]) -> None:
    """Remove what a volume stood for, with everything in it."""
    context.caller.check(tenant)
    if context.uploader is not None:
        await context.uploader.remove_object(tenant, str(claim["kind"]), str(claim["metadata"]["name"]))
    else:
        folder = _claim_folder(context, tenant, claim)

        def remove() -> None:
            if context.rehearsal:
                return
            if folder.is_symlink():
                folder.unlink()  # what is on an export stays there
            elif folder.exists():
                shutil.rmtree(folder)

        await context.among_files(tenant, remove)


def _mounted_export(server: str, path: str) -> str:
    """Where this machine has an export. Nothing is mounted here: that is for root, and outlasts a service."""
    export = f"{server}:{path}"
    try:
        return mount_point(export)
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"{export} is not mounted on this machine",
            field="spec.nfs",
            expected=f"it after: mount -t nfs {export} DIR",
        ) from error


def _claim_folder(context: OperationContext, tenant: Tenant, claim: Mapping[str, Any]) -> Path:
    name = str(claim["spec"].get("claimRef", claim["metadata"])["name"])
    check_name(tenant, "metadata.tenant")
    check_name(name, "metadata.name")
    if context.claim_directory is None:
        raise NotFoundError("path", "volumes", hint="this service keeps no volumes")
    return context.claim_directory / tenant / name


async def take_secret_away(context: OperationContext, tenant: Tenant, name: str) -> None:
    """Remove a Secret that was brought, wherever it is kept; one that is gone already is fine."""
    if context.uploader is not None:
        context.caller.check(tenant)
        await context.uploader.remove_object(tenant, "Secret", name)
        return
    with contextlib.suppress(NotFoundError):
        delete_object(context, tenant, ObjectKind.SECRET, name)


def put_object(context: OperationContext, tenant: Tenant, kind: ObjectKind, name: str, text: str, *, new: bool) -> None:
    """Keep an object; ``new`` refuses to replace one of that name."""
    file = _file(context, tenant, kind, name)
    if context.rehearsal:
        if new and file.exists():
            raise ConflictError(f"{kind} '{name}' already exists")
        return
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


def get_object(context: OperationContext, tenant: Tenant, kind: ObjectKind, name: str) -> str:
    """Return an object as it was kept."""
    try:
        return _file(context, tenant, kind, name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(kind, name) from error


async def read_config_map(
    directory: Path, tenant: Tenant | None, namespace: str, name: str
) -> Mapping[str, str] | None:
    """Return what a ConfigMap that is kept here holds; None if it is not here. Who may name it is asked before."""
    del tenant
    if not (_NAME.fullmatch(name) and _NAME.fullmatch(namespace)):
        return None
    file = directory / namespace / ObjectKind.CONFIG_MAP / f"{name}.json"
    try:
        found = json.loads(await asyncio.to_thread(file.read_text, encoding="utf-8"))
    except FileNotFoundError:
        return None
    return {str(key): str(value) for key, value in (found.get("data") or {}).items()}


async def read_secret(directory: Path, tenant: Tenant, name: str) -> Mapping[str, str]:
    """Return the values of a Secret that is kept here. Who may name it is asked before."""
    if not _NAME.fullmatch(name):
        raise NotFoundError("secret", name)
    return await asyncio.to_thread(secret_values, directory / tenant / ObjectKind.SECRET / f"{name}.json", name)


def secret_values(file: Path, name: str) -> dict[str, str]:
    """Read the values of a Secret; raises NotFoundError, or InvalidInputError that does not show what is there."""
    try:
        return decoded_values(json.loads(file.read_bytes()))
    except FileNotFoundError:
        raise NotFoundError("secret", name) from None
    except (ValueError, AttributeError, TypeError):
        # The parser would show the text around the mistake, and with it a value.
        raise InvalidInputError(f"the Secret '{name}' cannot be read", field=name, expected="text values") from None


def decoded_values(secret: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a Secret as text; raises ValueError for what is none."""
    encoded = {
        str(key): base64.b64decode(text, validate=True).decode() for key, text in (secret.get("data") or {}).items()
    }
    return encoded | {str(key): str(text) for key, text in (secret.get("stringData") or {}).items()}


def list_objects(context: OperationContext, tenant: Tenant, kind: ObjectKind) -> tuple[str, ...]:
    """Return every object of a kind, by name."""
    folder = _folder(context, tenant, kind)
    files = sorted(folder.glob("[a-z0-9]*.json")) if folder.exists() else []
    return tuple(file.read_text(encoding="utf-8") for file in files)


def delete_object(context: OperationContext, tenant: Tenant, kind: ObjectKind, name: str) -> None:
    """Remove an object; jobs that run keep what they were given."""
    file = _file(context, tenant, kind, name)
    try:
        file.stat() if context.rehearsal else file.unlink()
    except FileNotFoundError as error:
        raise NotFoundError(kind, name) from error


def _file(context: OperationContext, tenant: Tenant, kind: ObjectKind, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"'{name}' is not a valid name", field="metadata.name", expected="a DNS subdomain")
    return _folder(context, tenant, kind) / f"{name}.json"


def _folder(context: OperationContext, tenant: Tenant, kind: ObjectKind) -> Path:
    context.caller.check(tenant)
    check_name(tenant, "metadata.namespace")
    if context.object_directory is None:
        raise NotFoundError("path", kind, hint="the cluster keeps its own")
    return context.object_directory / tenant / kind
