"""Copies that this process cannot make by itself: a job of the service makes them, and is deleted afterwards.

The keys of a store and the directories of volumes are the service's, and stay there: what moves them is what moves the
data of every other job, with the same rights, retries and reasons.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from gangline.data.addresses import Address
from gangline.errors import GanglineError, InvalidInputError, NotFoundError, UnreachableError
from gangline.model import FINAL_PHASES, Phase, Policy, Resources, RoleName, RoleSpec
from gangline.model.jobs.spec import DataMove, JobSpec
from gangline.model.wording import reason_text
from gangline.sdk.client import Client

_COPY = "copy"
_TTL_SECONDS = 3600.0
"""How long the job stays if whoever asked for the copy was killed before its end."""
_AWAIT = """
import os, sys, time
until = time.monotonic() + 24 * 3600
while not os.path.exists(os.path.join(os.environ["RESULT_DIR"], sys.argv[1])) and time.monotonic() < until:
    time.sleep(0.2)
"""
"""Waits until a file has come; for a day at most, for whoever sends it may have been killed."""


def default_store(client: Client, *addresses: Address) -> str | None:
    """Return the tenant's default store for one of the addresses, as a job that names none would have it."""
    if not any(address.in_object_store for address in addresses):
        return None
    stores = sorted((each.spec for each in client.stores.list()), key=lambda spec: spec.name)
    found = (spec.name for spec in stores if spec.default and any(spec.covers(each.canonical) for each in addresses))
    return next(found, None)


def copy_by_job(
    client: Client,
    source: Address,
    target: Address,
    *,
    store: str | None = None,
    on_cluster: bool = False,
    say: Callable[[str], None],
) -> None:
    """Copy between addresses that only the service reaches, or between one of them and a path of this machine.

    On a cluster, where a job has files of its own only while its pod runs, its program waits for the copy meanwhile.
    """
    stores = _stores(client, store, source, target)
    here, there = source.scheme == "file", target.scheme == "file"
    if here and not Path(source.path).exists():
        raise InvalidInputError(f"there is no '{source.path}'", expected="a file or a directory")
    wanted = target
    if here and (target.is_folder or (target.in_object_store and not target.path)) and Path(source.path).is_file():
        wanted = target.below(Path(source.path).name)
    # What goes into a folder keeps its name; otherwise a single file becomes what the target is called.
    place = f"$RESULT_DIR/{_COPY}{'/' if target.is_folder and not there else ''}"
    inputs = () if here else (DataMove(source.text, place, store=stores[0]),)
    outputs = () if there else (DataMove(f"$RESULT_DIR/{_COPY}", wanted.text, store=stores[1]),)
    waits = on_cluster and (here or there)
    command = ("python3", "-c", _AWAIT, _COPY if here else "nothing") if waits else ("true",)
    role = RoleSpec(name=RoleName("copy"), command=command, resources=Resources(cpu_millis=10))
    policy = Policy(max_attempts=3, ttl_seconds=_TTL_SECONDS)
    name = f"cp-{os.urandom(4).hex()}"
    job = client.submit(
        JobSpec(name=name, tenant=client.tenant, roles=(role,), inputs=inputs, outputs=outputs, policy=policy),
        halted=here and not waits,
    )
    say(f"job {name} copies it")
    try:
        if waits:
            _await(client, job.id, source, {Phase.PROCESSING, *FINAL_PHASES})
        if here:
            client.files.send(job.id, Path(source.path), f"results/{_COPY}")
            if not waits:
                client.resume(job.id)
        if not (waits and there):
            _await(client, job.id, source, FINAL_PHASES)
        if there:
            _fetch(client, job.id, source, target)
    finally:
        with suppress(NotFoundError, UnreachableError):
            client.delete(job.id, wait=False)


def _await(client: Client, job: str, source: Address, phases: Collection[Phase]) -> None:
    reached = client.wait(job, phases=phases)
    if reached.finished and reached.phase is not Phase.COMPLETED:
        raise GanglineError(f"{source.text} is not copied: {reason_text(reached)}")


def _stores(client: Client, name: str | None, *addresses: Address) -> list[str | None]:
    """Return the store of each address: the one that is named where it covers it, the tenant's default otherwise."""
    if name is None:
        return [None for _ in addresses]
    spec = client.stores.get(name).spec
    found = [name if spec.covers(address.canonical) else None for address in addresses]
    if not any(found):
        raise InvalidInputError(f"store '{name}' is for {spec.address}", field="--store", expected="an address in it")
    return found


def _fetch(client: Client, job: str, source: Address, target: Address) -> None:
    path, place = f"results/{_COPY}", Path(target.path)
    if [file.path for file in client.files.list(job, path)] == [path] and (target.is_folder or place.is_dir()):
        place /= source.last_part
    client.files.fetch(job, path, place)
