"""Copies files by hand out of a cluster and into it: a program of Gangline's image in a pod, over the pod's streams."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gangline.data.job_folders import FileFact
from gangline.data.model_files import KeptModel
from gangline.data.moving import PERMANENT_FAILURE
from gangline.data.reach import MISSING
from gangline.data.unpacking import PermanentError
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.launching.gang_data import DataRecords
from gangline.engines.kubernetes.manifests.file_pods import (
    CONTAINER,
    PLACE,
    REACH,
    REACH_CHECKPOINTS,
    added_container,
    job_pod,
    model_place,
    model_pod,
    root_of,
)
from gangline.engines.kubernetes.manifests.gang import IMAGE_NOTE, IMAGE_NOTE_KEY
from gangline.engines.kubernetes.manifests.moves import MOUNTED, ModelUse, expanded, scheme_of
from gangline.engines.kubernetes.manifests.pod import Plain
from gangline.engines.kubernetes.manifests.staging import OUTPUTS_CONTAINER
from gangline.engines.kubernetes.watch.pod_events import termination_message
from gangline.errors import EngineError, InvalidInputError, NotFoundError
from gangline.kube import (
    CONFIG_MAPS,
    PODS,
    CommandError,
    GenericObject,
    KubeClient,
    Owner,
    Pod,
    Resource,
    belongs,
)
from gangline.kube import NotFoundError as NoObjectError
from gangline.model import Job, Phase
from gangline.model.kinds.data_store import DataStore

_CONTROLLER = "gangline"
_LOOK_SECONDS = 0.2
_START_SECONDS = 120.0
_WHOLE_PODS = Resource(plural="pods", kind="Pod", type=GenericObject)


@dataclass(frozen=True, slots=True)
class Place:
    """A container in which the files are."""

    pod: str
    container: str
    root: str = ""


@dataclass(frozen=True, slots=True)
class FileReach:
    """Reaches files with the rights of whoever asks. ``controller`` names the installation."""

    client: KubeClient
    records: DataRecords
    controller: str = _CONTROLLER

    # Jobs ---------------------------------------------------------------------------------------------------

    async def list_files(self, job: Job, owner: Owner | None, path: str) -> tuple[FileFact, ...]:
        """Return every file of a job at or below a path."""
        answer = await self._answer(self._at_job(job, owner, "list", path), job.spec.name)
        return tuple(FileFact(*entry) for entry in json.loads(answer))

    async def read_files(self, job: Job, owner: Owner | None, path: str) -> AsyncGenerator[bytes]:
        """Return a file or a directory of a job as one tar stream."""
        async with aclosing(self._at_job(job, owner, "read", path)) as chunks:
            async for chunk in _explained(chunks, job.spec.name):
                yield chunk

    async def write_files(self, job: Job, owner: Owner | None, path: str, stream: AsyncIterator[bytes]) -> FileFact:
        """Put a tar stream among the files of a job that runs, or on its volume."""
        if job.finished and not job.spec.labels.get(names.VOLUME):
            raise InvalidInputError(f"job '{job.spec.name}' has ended, and has no volume to put files on", field="path")
        answer = await self._answer(self._at_job(job, owner, "write", path, stream), job.spec.name)
        return FileFact(*json.loads(answer))

    async def _at_job(
        self, job: Job, owner: Owner | None, action: str, path: str, stream: AsyncIterator[bytes] | None = None
    ) -> AsyncGenerator[bytes]:
        pod = await self._lead_pod(job, owner) if owner is not None else None
        if pod is None and stream is None and _only_at_an_address(job, path):
            async with aclosing(self._at_checkpoints(job, owner, action, path)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        async with self._place_of(job, owner, pod) as place:
            command = [*REACH, "files", place.root, action, path]
            async with aclosing(self._run(job.spec.tenant, place, command, stream)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _at_checkpoints(self, job: Job, owner: Owner | None, action: str, path: str) -> AsyncGenerator[bytes]:
        """Ask the address of the job's checkpoints: nothing else has them while it does not run."""
        rule = job.spec.checkpoints
        assert rule is not None
        at = expanded(rule.to, job.spec)
        mounted = scheme_of(at) in MOUNTED
        try:
            store = None if mounted else await self.records.find_store(job.spec.tenant, rule.store, at)
        except PermanentError as error:
            raise EngineError(str(error)) from error
        command = [*REACH_CHECKPOINTS, PLACE, action, path, *([str(job.resume_from)] if job.resume_from else [])]
        async with aclosing(self._at_address(job.spec.tenant, at, store, command, owner=owner)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def _place_of(self, job: Job, owner: Owner | None, pod: Pod | None) -> AsyncIterator[Place]:
        if pod is not None:
            container = await self._container_in(job, pod)
            yield Place(pod.metadata.name, container, root_of(job.spec, container))
            return
        # A halted job goes on from its volume; whoever chooses a checkpoint to go on from must see them.
        if not job.finished and not (job.phase is Phase.HALTED and job.spec.labels.get(names.VOLUME)):
            raise EngineError(f"job '{job.spec.name}' has no files yet: its lead replica does not run")
        if not (job.spec.outputs or job.spec.labels.get(names.VOLUME)):
            raise EngineError(
                f"job '{job.spec.name}' has ended and kept no files: name an output, or a volume, in the next one"
            )
        shared = names.job_name(job.spec.name, job.id)
        name = f"{shared}-files-{secrets.token_hex(3)}"
        stores = await self._stores_of(job)
        image = await self._image(job.spec.tenant)
        reference = owner.reference if owner is not None else None
        async with self._pod(job_pod(name, image, job.spec, owner=reference, shared=shared, stores=stores)):
            yield Place(name, CONTAINER, root_of(job.spec, CONTAINER if job.spec.labels.get(names.VOLUME) else ""))

    async def _lead_pod(self, job: Job, owner: Owner) -> Pod | None:
        """Find the pod of the lead replica, if its containers run."""
        labels = names.job_labels(self.controller, job.id)
        labels |= {names.PART: names.Part.REPLICA, names.ROLE: job.spec.lead_role, names.INDEX: "0"}
        for pod in (await self.client.list(PODS, namespace=owner.namespace, labels=labels)).items or ():
            running = pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            if running and belongs(pod.metadata, owner):
                return pod
        return None

    async def _container_in(self, job: Job, pod: Pod) -> str:
        """Return the mover's container, or one that was added for this, or add one."""
        for status in pod.status.container_statuses:
            if status.name == OUTPUTS_CONTAINER and status.state.running is not None:
                return OUTPUTS_CONTAINER
        whole = await self.client.get(_WHOLE_PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        added: list[Plain] = list(whole.spec.get("ephemeralContainers") or ())
        if name := _running(whole):
            return name
        container = added_container(await self._image(job.spec.tenant), job.spec, len(added))
        body = {"spec": {"ephemeralContainers": [*added, container]}}
        await self.client.patch(
            _WHOLE_PODS,
            pod.metadata.name,
            body,
            namespace=pod.metadata.namespace,
            subresource="ephemeralcontainers",
        )
        async with asyncio.timeout(_START_SECONDS):
            while True:
                whole = await self.client.get(_WHOLE_PODS, pod.metadata.name, namespace=pod.metadata.namespace)
                if name := _running(whole):
                    return name
                await asyncio.sleep(_LOOK_SECONDS)

    async def _stores_of(self, job: Job) -> dict[str, DataStore]:
        """Find the stores that the job's movers were told of."""
        name = f"{names.job_name(job.spec.name, job.id)}-moves"
        try:
            found = await self.client.get(CONFIG_MAPS, name, namespace=job.spec.tenant)
        except NoObjectError:
            return {}
        stores = {}
        for move in job.spec.outputs:
            for store in json.loads(found.data["moves.json"]).get("stores", {}):
                with contextlib.suppress(PermanentError):
                    known = await self.records.find_store(job.spec.tenant, store, move.target)
                    if known is not None:
                        stores[store] = known
        return stores

    # Models -------------------------------------------------------------------------------------------------

    async def model_files(self, tenant: str, at: str, digest: str) -> AsyncGenerator[bytes]:
        """Return the files of a version as one tar stream."""
        async with aclosing(self._at_models(tenant, at, "take", digest)) as chunks:
            async for chunk in _explained(chunks, digest[:12]):
                yield chunk

    async def keep_model(self, tenant: str, stream: AsyncIterator[bytes]) -> tuple[str, KeptModel]:
        """Keep a tar stream as the files of a version; returns where, and what it is found by."""
        try:
            at = await self.records.place_for_models(tenant)
        except PermanentError as error:
            raise InvalidInputError(str(error), field="model") from error
        answer = await self._answer(self._at_models(tenant, at, "keep", "-", stream), "the model")
        return at, KeptModel(*json.loads(answer))

    async def forget_models(self, tenant: str, at: str, used: Iterable[str]) -> None:
        """Remove files that no version needs."""
        await self._answer(self._at_models(tenant, at, "forget", ",".join(sorted(used))), "models")

    async def _at_models(
        self, tenant: str, at: str, action: str, argument: str, stream: AsyncIterator[bytes] | None = None
    ) -> AsyncGenerator[bytes]:
        store = None if at.startswith("pvc://") else await self.records.find_store(tenant, None, at)
        command = [*REACH, "models", PLACE, action, argument]
        async with aclosing(self._at_address(tenant, at, store, command, stream)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _at_address(
        self,
        tenant: str,
        at: str,
        store: DataStore | None,
        command: Sequence[str],
        stream: AsyncIterator[bytes] | None = None,
        *,
        owner: Owner | None = None,
    ) -> AsyncGenerator[bytes]:
        """Run a program in a pod that can open an address, and has a file that says how."""
        use = ModelUse(at=at, store=store.name if store else None)
        name = f"gangline-files-{secrets.token_hex(4)}"
        reference = owner.reference if owner is not None else None
        async with self._pod(model_pod(name, await self._image(tenant), tenant, use, store, owner=reference)):
            text = json.dumps(model_place(use, store)).encode()
            write = ["python3", "-I", "-c", f"import sys; open({PLACE!r}, 'w').write(sys.stdin.read())"]
            await self.client.execute(name, write, namespace=tenant, container=CONTAINER, stdin=text)
            async with aclosing(self._run(tenant, Place(name, CONTAINER), command, stream)) as chunks:
                async for chunk in chunks:
                    yield chunk

    # Pods ---------------------------------------------------------------------------------------------------

    async def _image(self, tenant: str) -> str:
        """Read which image this installation moves data with; the controller leaves word of it where jobs run."""
        try:
            note = await self.client.get(CONFIG_MAPS, IMAGE_NOTE, namespace=tenant)
        except NoObjectError:
            raise EngineError(
                "it is not known here which image moves data: run a job in this namespace first"
            ) from None
        return note.data[IMAGE_NOTE_KEY]

    @asynccontextmanager
    async def _pod(self, body: Plain) -> AsyncIterator[None]:
        """Have a pod run for as long as the context is open."""
        metadata = body["metadata"]
        await self.client.create(PODS, body)
        try:
            async with asyncio.timeout(_START_SECONDS):
                while True:
                    pod = await self.client.get(PODS, metadata["name"], namespace=metadata["namespace"])
                    if pod.status.phase == "Running":
                        break
                    if pod.status.phase == "Failed":
                        raise EngineError(_why_failed(pod))
                    await asyncio.sleep(_LOOK_SECONDS)
            yield
        finally:
            with contextlib.suppress(NoObjectError):
                await self.client.delete(PODS, metadata["name"], namespace=metadata["namespace"], grace_seconds=0)

    async def _run(
        self, namespace: str, place: Place, command: Sequence[str], stream: AsyncIterator[bytes] | None
    ) -> AsyncGenerator[bytes]:
        chunks = self.client.stream(place.pod, command, namespace=namespace, container=place.container, stdin=stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _answer(self, chunks: AsyncGenerator[bytes], what: str) -> bytes:
        async with aclosing(chunks), aclosing(_explained(chunks, what)) as explained:
            return b"".join([chunk async for chunk in explained])


def _only_at_an_address(job: Job, path: str) -> bool:
    """Whether what lies at a path is, of a job that does not run, at the address of its checkpoints alone."""
    first = next(filter(None, path.split("/")), "")
    return first == "checkpoints" and job.spec.checkpoints is not None and not job.spec.labels.get(names.VOLUME)


async def _explained(chunks: AsyncGenerator[bytes], what: str) -> AsyncGenerator[bytes]:
    """Turn a failure of the program in the pod into what it means."""
    try:
        async for chunk in chunks:
            yield chunk
    except CommandError as error:
        last = next((line for line in reversed(error.said.splitlines()) if line.strip()), str(error))
        if error.exit_code == MISSING:
            raise NotFoundError("file", f"{what}:{last}", hint="'gangline results' lists them") from error
        if error.exit_code == PERMANENT_FAILURE:
            raise InvalidInputError(last, field="path") from error
        raise EngineError(last) from error
    except TimeoutError as error:
        raise EngineError("no pod to look at the files started in two minutes") from error


def _running(pod: GenericObject) -> str:
    """The added container that runs, if one does."""
    statuses: list[Any] = pod.status.get("ephemeralContainerStatuses") or []
    return next((each["name"] for each in statuses if "running" in (each.get("state") or {})), "")


def _why_failed(pod: Pod) -> str:
    for status in pod.status.init_container_statuses:
        if status.state.terminated is not None and status.state.terminated.exit_code:
            return termination_message(status.state.terminated)
    return pod.status.message or pod.status.reason or "the pod to look at the files failed"
