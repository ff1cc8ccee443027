"""What a client asks before it asks for anything: versions, groups, resources, namespaces."""

from aiohttp import web

from gangline import __version__
from gangline.api.kubernetes.answers import list_object, object_answer
from gangline.api.kubernetes.job_objects import served_versions
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.requests import desk_of, tenant_of
from gangline.dialects.kubeflow import GROUP
from gangline.model import DEFAULT_TENANT, Tenant

_JOB_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_KEPT_VERBS = ["create", "delete", "get", "list", "patch", "update"]
_READ_VERBS = ["get", "list"]
_CORE = {
    "pods": ("Pod", _READ_VERBS),
    "pods/log": ("Pod", ["get"]),
    "events": ("Event", ["list"]),
    "configmaps": ("ConfigMap", _KEPT_VERBS),
    "secrets": ("Secret", _KEPT_VERBS),
}
_EMULATED = {"major": "1", "minor": "31"}
"""The release whose answers these are like; clients choose their behaviour by it."""


async def version(request: web.Request) -> web.Response:
    """Return the version of the interface, with our own behind it."""
    git = f"v{_EMULATED['major']}.{_EMULATED['minor']}.0+gangline-{__version__}"
    return object_answer({**_EMULATED, "gitVersion": git, "platform": "linux/amd64"})


async def health(request: web.Request) -> web.Response:
    """Say that requests are answered."""
    return web.Response(text="ok")


async def core_versions(request: web.Request) -> web.Response:
    """Return the versions of the core group."""
    return object_answer({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})


async def groups(request: web.Request) -> web.Response:
    """Return the one other group there is."""
    return object_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]})


async def group(request: web.Request) -> web.Response:
    """Return the group of training jobs."""
    return object_answer({"kind": "APIGroup", "apiVersion": "v1", **_group()})


async def core_resources(request: web.Request) -> web.Response:
    """Return the resources of the core group."""
    resources = [_resource(name, kind, verbs) for name, (kind, verbs) in _CORE.items()]
    resources.append({**_resource("namespaces", "Namespace", _READ_VERBS), "namespaced": False})
    return object_answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})


async def job_resources(request: web.Request) -> web.Response:
    """Return the kinds of job in one version."""
    name = request.match_info["version"]
    kinds = served_versions().get(name)
    if kinds is None:
        raise web.HTTPNotFound(text=f"there is no version {name}")
    resources = [_resource(kind.plural, kind.name, _JOB_VERBS) for kind in kinds]
    return object_answer({"kind": "APIResourceList", "groupVersion": f"{GROUP}/{name}", "resources": resources})


async def namespace(request: web.Request) -> web.Response:
    """Return a namespace: every tenant is one, whether it has jobs or not."""
    tenant = tenant_of(request)
    desk_of(request).caller.check(tenant)
    return object_answer(_namespace(tenant))


async def namespaces(request: web.Request) -> web.Response:
    """Return the namespaces that are known to exist: the default one, and those the caller is confined to."""
    tenants = desk_of(request).caller.tenants or frozenset({DEFAULT_TENANT})
    return object_answer(list_object("Namespace", "v1", [_namespace(tenant) for tenant in sorted(tenants)]))


def _group() -> Plain:
    versions = [{"groupVersion": f"{GROUP}/{name}", "version": name} for name in served_versions()]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _resource(name: str, kind: str, verbs: list[str]) -> Plain:
    return {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}


def _namespace(tenant: Tenant) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": tenant, "uid": f"tenant-{tenant}", "labels": {"kubernetes.io/metadata.name": tenant}},
        "status": {"phase": "Active"},
    }
