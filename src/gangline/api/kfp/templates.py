"""Handlers for pipelines that are kept and their versions: templates, in our words."""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from uuid import uuid4

from aiohttp import BodyPartReader, web

from gangline import operations
from gangline.api.kfp.answers import Plain, answer, given, refusal, time_text
from gangline.api.kfp.listing import Fields, read_request
from gangline.api.kfp.records import page_answer
from gangline.api.kfp.requests import (
    MOST_BODY_BYTES,
    context_of,
    documents_of,
    every,
    find,
    id_of,
    listed,
    object_of,
    part_in,
    public_id,
    readable,
    tenant_of,
    text_in,
)
from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.kinds.pipeline import graph_of
from gangline.kinds.template import TEMPLATE, TEMPLATE_VERSION
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.kinds.template import Template, TemplateSpec, TemplateVersion, TemplateVersionSpec, name_for
from gangline.model.record import RecordId

_FILES = (".yaml", ".yml", ".json")
_LONGEST_NAME = 48


def title(found: Template | TemplateVersion) -> str:
    """Return what its user calls it."""
    return found.spec.display_name or found.name


FIELDS: Fields[Template] = {
    "id": lambda found: found.name,
    "pipeline_id": lambda found: found.name,
    "name": title,
    "display_name": title,
    "description": lambda found: found.spec.description,
    "created_at": lambda found: float(found.created_at),
    "namespace": lambda found: str(found.tenant),
}
VERSION_FIELDS: Fields[TemplateVersion] = {
    "id": lambda found: found.name,
    "pipeline_version_id": lambda found: found.name,
    "name": title,
    "display_name": title,
    "description": lambda found: found.spec.description,
    "created_at": lambda found: float(found.created_at),
}


async def upload(request: web.Request) -> web.Response:
    """Keep the pipeline in the body, as a new template and its first version."""
    documents = await _uploaded(request)
    query = request.query
    display_name = query.get("display_name") or query.get("name") or graph_of(documents).name
    template = await _make(request, tenant_of(request), display_name, query.get("description", ""))
    await _make_version(request, template, display_name, query.get("description", ""), documents)
    return answer(plain(request, template))


async def upload_version(request: web.Request) -> web.Response:
    """Keep the pipeline in the body as one more version."""
    documents = await _uploaded(request)
    query = request.query
    template = await find(request, TEMPLATE, query.get("pipelineid", ""))
    display_name = query.get("display_name") or query.get("name") or f"{title(template)} {uuid4().hex[:8]}"
    made = await _make_version(request, template, display_name, query.get("description", ""), documents)
    return answer(version_plain(request, made))


async def create(request: web.Request) -> web.Response:
    """Make a template without versions."""
    body = await object_of(request)
    tenant = tenant_of(request, text_in(body, "namespace"))
    display_name = text_in(body, "display_name") or text_in(body, "name")
    return answer(plain(request, await _make(request, tenant, display_name, text_in(body, "description"))))


async def create_with_version(request: web.Request) -> web.Response:
    """Make a template and its first version."""
    body = await object_of(request)
    about, version = part_in(body, "pipeline"), part_in(body, "pipeline_version")
    documents = _sent(version)
    tenant = tenant_of(request, text_in(about, "namespace"))
    display_name = text_in(about, "display_name") or text_in(about, "name") or graph_of(documents).name
    template = await _make(request, tenant, display_name, text_in(about, "description"))
    version_name = text_in(version, "display_name") or text_in(version, "name") or display_name
    await _make_version(request, template, version_name, text_in(version, "description"), documents)
    return answer(plain(request, template))


async def create_version(request: web.Request) -> web.Response:
    """Make one more version."""
    body = await object_of(request)
    documents = _sent(body)
    template = await find(request, TEMPLATE, request.match_info["id"])
    display_name = text_in(body, "display_name") or text_in(body, "name")
    made = await _make_version(request, template, display_name, text_in(body, "description"), documents)
    return answer(version_plain(request, made))


async def get_by_name(request: web.Request) -> web.Response:
    """Return the template that its user calls this."""
    name = request.match_info["name"]
    for found in await every(request, TEMPLATE, tenant_of(request)):
        if title(found) == name:
            return answer(plain(request, found))
    raise NotFoundError("template", name)


async def listing(request: web.Request) -> web.Response:
    """Return a page of templates."""
    page, rest = await listed(request, TEMPLATE, FIELDS, tenant_of(request))
    return answer({"pipelines": [plain(request, each) for each in page], **rest})


async def change(request: web.Request) -> web.Response:
    """Change what a template is called or said to be for."""
    body = await object_of(request)
    found = await find(request, TEMPLATE, request.match_info["id"])
    wanted = replace(
        found.spec,
        display_name=text_in(body, "display_name") or found.spec.display_name,
        description=text_in(body, "description") if "description" in body else found.spec.description,
    )
    return answer(plain(request, await operations.edit_record(context_of(request), TEMPLATE, wanted)))


async def delete(request: web.Request) -> web.Response:
    """Delete a template; with ``cascade`` its versions too, else only one that has none."""
    found = await find(request, TEMPLATE, request.match_info["id"])
    versions = await versions_of(request, found)
    if request.query.get("cascade", "").lower() == "true":
        for version in versions:
            await operations.delete_record(context_of(request), TEMPLATE_VERSION, version.tenant, version.name)
    elif versions:
        names = ", ".join(each.name for each in versions[:5])
        raise InvalidInputError(f"the pipeline '{found.name}' has versions: {names}", expected="none, or cascade=true")
    await operations.delete_record(context_of(request), TEMPLATE, found.tenant, found.name)
    return answer()


async def get_version(request: web.Request) -> web.Response:
    """Return one version."""
    return answer(version_plain(request, await _found_version(request)))


async def list_versions(request: web.Request) -> web.Response:
    """Return a page of the versions of a template."""
    template = await find(request, TEMPLATE, request.match_info["id"])
    wanted = read_request(request.query, VERSION_FIELDS)
    page, token, total = wanted.page(await versions_of(request, template), lambda found: found.name)
    return page_answer("pipeline_versions", [version_plain(request, each) for each in page], token, total)


async def delete_version(request: web.Request) -> web.Response:
    """Delete one version."""
    found = await _found_version(request)
    await operations.delete_record(context_of(request), TEMPLATE_VERSION, found.tenant, found.name)
    return answer()


async def refuse(request: web.Request) -> web.Response:
    """Answer what Gangline has nothing for."""
    return refusal(HTTPStatus.NOT_IMPLEMENTED, f"{request.method} {request.path} is not offered by Gangline")


async def versions_of(request: web.Request, template: Template) -> list[TemplateVersion]:
    """Return every version of a template, newest first."""
    assert template.tenant is not None
    found = await every(request, TEMPLATE_VERSION, template.tenant)
    return [each for each in found if each.spec.template == template.name]


async def referred(request: web.Request, reference: Plain) -> TemplateVersion:
    """Return the version that a run refers to; without one, the newest of the template."""
    where = "pipeline_version_reference."
    version_id = text_in(reference, "pipeline_version_id", where)
    template_id = text_in(reference, "pipeline_id", where)
    if version_id:
        found = await find(request, TEMPLATE_VERSION, version_id)
        if template_id and public_id(request, found.tenant or DEFAULT_TENANT, found.spec.template) != template_id:
            raise InvalidInputError(
                f"'{version_id}' is not a version of pipeline '{template_id}'", field=f"{where}pipeline_version_id"
            )
        return found
    if not template_id:
        raise InvalidInputError(
            "it is not said what to run", field="pipeline_spec", expected="it or pipeline_version_reference"
        )
    versions = await versions_of(request, await find(request, TEMPLATE, template_id))
    if not versions:
        raise NotFoundError("templateversion", template_id, hint="the pipeline has no versions")
    return versions[0]


async def _found_version(request: web.Request) -> TemplateVersion:
    found = await find(request, TEMPLATE_VERSION, request.match_info["version"])
    if public_id(request, found.tenant or DEFAULT_TENANT, found.spec.template) != request.match_info["id"]:
        raise NotFoundError("templateversion", request.match_info["version"])
    return found


async def _make(request: web.Request, tenant: Tenant, display_name: str, description: str) -> Template:
    name = name_for(display_name, "display_name")
    if any(title(each) == display_name for each in await every(request, TEMPLATE, tenant)):
        raise ConflictError(f"there already is a pipeline named '{display_name}'; upload a version of it")
    spec = TemplateSpec(name=name, tenant=tenant, display_name=display_name, description=description)
    return await operations.create_record(context_of(request), TEMPLATE, RecordId(f"t{uuid4().hex[:14]}"), spec)


async def _make_version(
    request: web.Request, template: Template, display_name: str, description: str, documents: str
) -> TemplateVersion:
    if any(title(each) == display_name for each in await versions_of(request, template)):
        raise ConflictError(f"the pipeline '{title(template)}' already has a version named '{display_name}'")
    name = name_for(f"{template.name} {display_name}", "display_name")[:_LONGEST_NAME].strip("-")
    spec = TemplateVersionSpec(
        name=name,
        tenant=template.tenant or DEFAULT_TENANT,
        template=template.name,
        documents_json=documents,
        display_name=display_name,
        description=description,
    )
    return await operations.create_record(context_of(request), TEMPLATE_VERSION, RecordId(f"v{uuid4().hex[:14]}"), spec)


def _sent(version: Plain) -> str:
    if "pipeline_spec" not in version:
        raise InvalidInputError(
            "addresses of packages are not downloaded here",
            field="package_url",
            expected="the pipeline itself: upload the file, or send pipeline_spec",
        )
    return documents_of(version["pipeline_spec"])


async def _uploaded(request: web.Request) -> str:
    """Return the documents of the file in the body: YAML, alone or in an archive as the compiler packs it."""
    if not request.content_type.startswith("multipart/"):
        raise InvalidInputError(
            "the body is not a form", field="body", expected="multipart/form-data with 'uploadfile'"
        )
    try:
        form = await request.multipart()
        while (part := await form.next()) is not None:
            if isinstance(part, BodyPartReader) and part.name == "uploadfile":
                return _documents(await _content(part))
    except (ValueError, AssertionError) as error:
        raise InvalidInputError(f"the form is not understood: {error}", field="body") from error
    raise InvalidInputError("the form has no file", field="uploadfile", expected="a compiled pipeline")


async def _content(part: BodyPartReader) -> bytes:
    found = bytearray()
    while chunk := await part.read_chunk():
        found += chunk
        if len(found) > MOST_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MOST_BODY_BYTES, len(found))
    return bytes(found)


def _documents(content: bytes) -> str:
    try:
        text = b"".join(_unpacked(content)).decode()
    except (UnicodeDecodeError, tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, RuntimeError) as error:
        raise InvalidInputError(f"the file cannot be read: {error}", field="uploadfile") from error
    found = [each.data for each in document.parse(text, file="uploadfile")]
    with readable("uploadfile"):
        documents = compact_json(found)
        graph_of(documents)
    return documents


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Return the one file of an archive, or what is not an archive as it is; never more than a body may have."""
    if content.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.endswith(_FILES)]
            with archive.open(_only(names)) as file:
                yield _limited(file.read(MOST_BODY_BYTES + 1))
    elif content.startswith(b"\x1f\x8b"):
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as packed:
            names = [member.name for member in packed if member.isfile() and member.name.endswith(_FILES)]
            found = packed.extractfile(_only(names))
            yield _limited(found.read(MOST_BODY_BYTES + 1) if found else b"")
    else:
        yield content


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise InvalidInputError(
            f"the archive has {len(names)} YAML files", field="uploadfile", expected="one compiled pipeline"
        )
    return names[0]


def _limited(content: bytes) -> bytes:
    if len(content) > MOST_BODY_BYTES:
        raise InvalidInputError(
            "the file is too large", field="uploadfile", expected=f"at most {MOST_BODY_BYTES} bytes"
        )
    return content


def plain(request: web.Request, found: Template) -> Plain:
    """Write a template."""
    return given(
        {
            "pipeline_id": id_of(request, found),
            "display_name": title(found),
            "name": found.name,
            "description": found.spec.description,
            "created_at": time_text(found.created_at),
            "namespace": found.tenant,
        }
    )


def version_plain(request: web.Request, found: TemplateVersion) -> Plain:
    """Write a version."""
    return given(
        {
            "pipeline_id": public_id(request, found.tenant or DEFAULT_TENANT, found.spec.template),
            "pipeline_version_id": id_of(request, found),
            "display_name": title(found),
            "name": found.name,
            "description": found.spec.description,
            "created_at": time_text(found.created_at),
            "pipeline_spec": spec_plain(found.spec.documents_json),
        }
    )


def spec_plain(documents_json: str) -> Plain:
    """Write a compiled pipeline as clients know it."""
    pipeline, *platform = json.loads(documents_json)
    return {"pipeline_spec": pipeline, "platform_spec": platform[0]} if platform else dict(pipeline)
