"""What a client asks before it asks for anything: versions, groups, resources, namespaces."""

from typing import Any

from aiohttp import web

from gangline import __version__
from gangline.api.kubernetes.answers import list_object, object_answer
from gangline.api.kubernetes.experiments import EXPERIMENTS
from gangline.api.kubernetes.foreign_kinds import ForeignKind
from gangline.api.kubernetes.inference_services import INFERENCE_SERVICES
from gangline.api.kubernetes.job_objects import served_versions
from gangline.api.kubernetes.plain import Plain
from gangline.api.kubernetes.requests import context_of, tenant_of
from gangline.api.kubernetes.train_jobs import TRAINER
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
FOREIGN: tuple[ForeignKind[Any, Any, Any], ...] = (EXPERIMENTS, INFERENCE_SERVICES, *TRAINER)
"""The kinds of others that are kept as records."""
GROUPS = tuple(dict.fromkeys((GROUP, *(each.kind.api_version.partition("/")[0] for each in FOREIGN))))
"""The groups besides that of Kubernetes itself."""
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
    """Return the other groups there are."""
    return object_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in GROUPS]})


async def group(request: web.Request) -> web.Response:
    """Return one group."""
    return object_answer({"kind": "APIGroup", "apiVersion": "v1", **_group(_asked(request))})


async def core_resources(request: web.Request) -> web.Response:
    """Return the resources of the core group."""
    resources = [_resource(name, kind, verbs) for name, (kind, verbs) in _CORE.items()]
    resources.append({**_resource("namespaces", "Namespace", _READ_VERBS), "namespaced": False})
    return object_answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})


async def group_resources(request: web.Request) -> web.Response:
    """Return the kinds of one version of a group."""
    group, name = _asked(request), request.match_info["version"]
    if name not in _versions(group):
        raise web.HTTPNotFound(text=f"there is no version {name}")
    following = {plural for each in FOREIGN for plural in each.followers}
    of_cluster = _of_cluster()
    resources = [
        {
            **_resource(plural, kind, [*_READ_VERBS, "watch"] if plural in following else _JOB_VERBS),
            "namespaced": plural not in of_cluster,
        }
        for plural, kind in _versions(group)[name].items()
    ]
    return object_answer({"kind": "APIResourceList", "groupVersion": f"{group}/{name}", "resources": resources})


async def open_api(request: web.Request) -> web.Response:
    """Say which versions are described: kubectl asks before it sends a file, whether the server checks fields."""
    versions = [f"apis/{group}/{name}" for group in GROUPS for name in _versions(group)]
    return object_answer({"paths": {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in versions}})


async def open_api_of_version(request: web.Request) -> web.Response:
    """Describe a version as far as kubectl needs: which kinds there are, and that the server checks their fields."""
    group, version = request.match_info["group"], request.match_info["version"]
    kinds = _versions(group).get(version, {}) if group in GROUPS else {}
    base = f"/apis/{group}/{version}"
    of_cluster = _of_cluster()
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths: Plain = {
        f"{base}{'' if plural in of_cluster else '/namespaces/{namespace}'}/{plural}/{{name}}": {
            "patch": {
                "parameters": [parameter],
                "responses": {},
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
            }
        }
        for plural, kind in kinds.items()
    }
    information = {"title": "Gangline", "version": __version__}
    return object_answer({"openapi": "3.0.0", "info": information, "paths": paths})


async def namespace(request: web.Request) -> web.Response:
    """Return a namespace: every tenant is one, whether it has jobs or not."""
    tenant = tenant_of(request)
    context_of(request).caller.check(tenant)
    return object_answer(_namespace(tenant))


async def namespaces(request: web.Request) -> web.Response:
    """Return the namespaces that are known to exist: the default one, and those the caller is confined to."""
    tenants = context_of(request).caller.tenants or frozenset({DEFAULT_TENANT})
    return object_answer(list_object("Namespace", "v1", [_namespace(tenant) for tenant in sorted(tenants)]))


def _asked(request: web.Request) -> str:
    return request.path.partition("/apis/")[2].partition("/")[0]


def _versions(group: str) -> dict[str, dict[str, str]]:
    """The kinds of a group, by version and then by plural."""
    jobs = served_versions() if group == GROUP else {}
    found = {name: {kind.plural: kind.name for kind in kinds} for name, kinds in jobs.items()}
    for each in FOREIGN:
        its, _, version = each.kind.api_version.partition("/")
        if its == group:
            found[version] = {**found.get(version, {}), **each.kinds()}
    return found


def _of_cluster() -> set[str]:
    """The plurals of kinds without namespaces."""
    return {each.kind.plural for each in FOREIGN if not each.kind.namespaced}


def _group(group: str) -> Plain:
    versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in _versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource(name: str, kind: str, verbs: list[str]) -> Plain:
    return {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}


def _namespace(tenant: Tenant) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": tenant, "uid": f"tenant-{tenant}", "labels": {"kubernetes.io/metadata.name": tenant}},
        "status": {"phase": "Active"},
    }
