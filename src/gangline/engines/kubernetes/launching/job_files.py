"""Sends a job's files into the cluster and finds them there: its code, and inputs from the submitter's own disk.

Whoever submits calls ``send``; the controller, which has another disk, calls ``find`` and waits for what is still on
its way.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.archives import (
    Archive,
    TooLargeError,
    archive_to_config_maps,
    config_map_to_archive,
    pack,
)
from gangline.engines.kubernetes.manifests.gang import Surroundings, archive_metadata
from gangline.engines.kubernetes.manifests.moves import JobArchives, local_inputs
from gangline.engines.kubernetes.manifests.pod import Plain
from gangline.engines.kubernetes.names import Part
from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.errors import InvalidInputError
from gangline.kinds import all_kinds
from gangline.kube import CONFIG_MAPS, AlreadyExistsError, KubeClient, Metadata, NotFoundError
from gangline.model import Gang, GangId, JobId
from gangline.model.record import owner_of

_LOOK_SECONDS = 0.5
_QUIET_LOOKS = 20
"""How often one looks for an archive of which nothing new arrives before it counts as never sent."""


IsJobs = Callable[[JobId, Metadata], Awaitable[bool]]
"""Says whether an object belongs to a job, or to a sweep."""


class Sender:
    """Moves archives between a disk and the cluster."""

    def __init__(self, client: KubeClient, *, controller: str, code_directory: Path | None, is_jobs: IsJobs) -> None:
        self._client = client
        self._is_jobs = is_jobs
        self._controller = controller
        self._code_directory = code_directory

    async def send(self, gang: Gang, around: Surroundings) -> None:
        """Send a submitted job's code and its local inputs; raises InvalidInputError for what is missing or too large.

        Everything is looked for before anything is sent.
        """
        inputs = {number: Path(source.removeprefix("file://")) for number, source in local_inputs(gang.spec).items()}
        for number, path in inputs.items():
            if not await asyncio.to_thread(path.exists):
                raise _wrong_input(number, f"{_plain(path)} does not exist on this machine")
        await self._code(gang, around)
        for number, path in inputs.items():
            try:
                content = await asyncio.to_thread(pack, path)
            except TooLargeError as error:
                raise _wrong_input(number, str(error)) from error
            metadata = archive_metadata(gang, around, Part.INPUTS, number)
            await self._send(content, metadata, file=path.name if await asyncio.to_thread(path.is_file) else "")

    async def find(self, gang: Gang, around: Surroundings) -> JobArchives:
        """Return the job's archives, sending its code first if it is here; raises RefusedError for one never sent."""
        code = await self._code(gang, around) or await self._code_there(_sent_as(gang), around)
        inputs = {}
        for number, source in local_inputs(gang.spec).items():
            missing = _refused(
                "InputsMissing",
                f"the input {source} was never sent into the cluster: submit with gangline, or name a place that the"
                " cluster reaches (s3://, https://, pvc://CLAIM/path)",
            )
            sent = _sent_as(gang)
            inputs[number] = await self._there(archive_metadata(sent, around, Part.INPUTS, number), sent, missing)
        return JobArchives(code=code, inputs=inputs)

    async def _code(self, gang: Gang, around: Surroundings) -> Archive | None:
        digest = (gang.spec.code or "").removeprefix("sha256:")
        file = self._code_directory / f"{digest}.tar.gz" if digest and self._code_directory is not None else None
        if file is None or not await asyncio.to_thread(file.is_file):
            return None
        content = await asyncio.to_thread(file.read_bytes)
        try:
            return await self._send(content, archive_metadata(gang, around, Part.CODE))
        except TooLargeError as error:
            hint = "leave data out with .ganglineignore, or put the code into the image"
            raise _refused("CodeTooLarge", f"{error}; {hint}") from error

    async def _code_there(self, gang: Gang, around: Surroundings) -> Archive | None:
        if not gang.spec.code:
            return None
        missing = _refused(
            "CodeMissing",
            f"the code archive {gang.spec.code} is neither here nor in the cluster; submit the job again",
        )
        return await self._there(archive_metadata(gang, around, Part.CODE), gang, missing)

    async def _send(self, content: bytes, metadata: Plain, *, file: str = "") -> Archive:
        archive, bodies = archive_to_config_maps(content, metadata, file=file)
        for body in bodies:
            try:
                await self._client.create(CONFIG_MAPS, body)
            except AlreadyExistsError:
                continue  # sent before; the first archive that is whole stays
        return archive

    async def _there(self, metadata: Plain, gang: Gang, missing: "RefusedError") -> Archive:
        """Wait for an archive as long as parts of it keep arriving, before pods wait for it in vain."""
        quiet, seen = 0, 0
        while quiet < _QUIET_LOOKS:
            try:
                found = await self._client.get(CONFIG_MAPS, metadata["name"], namespace=metadata["namespace"])
                if await self._is_jobs(gang.id.job_id, found.metadata):
                    return config_map_to_archive(found)
            except NotFoundError:
                pass
            arrived = await self._arrived(gang, metadata)
            quiet, seen = (0 if arrived > seen else quiet + 1), arrived
            await asyncio.sleep(_LOOK_SECONDS)
        raise missing

    async def _arrived(self, gang: Gang, metadata: Plain) -> int:
        labels = names.job_labels(self._controller, gang.id.job_id)
        found = await self._client.list(CONFIG_MAPS, namespace=metadata["namespace"], labels=labels)
        return sum([await self._is_jobs(gang.id.job_id, item.metadata) for item in found.items or ()])


def _sent_as(gang: Gang) -> Gang:
    """Return what a gang's files were sent for: the job itself, or the record whose jobs share one archive."""
    labels = gang.spec.labels
    name = next((labels[kind.label] for kind in all_kinds() if kind.each_template and kind.label in labels), None)
    if name is None:
        return gang
    return replace(gang, id=GangId(JobId(owner_of(gang.id.job_id)), 0), spec=replace(gang.spec, name=name))


def _plain(path: Path) -> str:
    """A path without the detours that a job file's relative ones make."""
    return os.path.normpath(path)


def _wrong_input(number: int, problem: str) -> InvalidInputError:
    return InvalidInputError(
        problem,
        field=f"spec.data.inputs[{number}].from",
        expected="a file or directory of this machine, or a place that the cluster reaches (s3://, https://, "
        "pvc://CLAIM/path)",
    )


def _refused(reason: str, message: str) -> RefusedError:
    return RefusedError(Refusal(reason=reason, message=message, permanent=True))
