"""Everything that a cluster holds, to see what an installation adds and what its removal leaves."""

import msgspec

from gangline.kube import KubeClient

PASSING = ("events", "leases", "endpointslices", "endpoints", "componentstatuses")
"""Kinds whose objects come and go by themselves."""


async def everything(client: KubeClient) -> set[str]:
    """The paths of all objects that last, of every kind the server knows."""
    found = set()
    for path in await _collections(client):
        answer = msgspec.json.decode(await client.raw(path))
        for item in answer.get("items") or ():
            metadata = item["metadata"]
            found.add(f"{path}/{metadata.get('namespace', '')}/{metadata['name']}")
    return found


async def _collections(client: KubeClient) -> list[str]:
    groups = msgspec.json.decode(await client.raw("/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    paths = []
    for root in roots:
        for kind in msgspec.json.decode(await client.raw(root))["resources"]:
            if "/" not in kind["name"] and "list" in kind["verbs"] and kind["name"] not in PASSING:
                paths.append(f"{root}/{kind['name']}")
    return paths
