"""What the workspaces of one machine share: the tokens of programs, when they were used, and TensorBoard's files."""

import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gangline.engines.interface import JobFolders
from gangline.errors import NotFoundError
from gangline.kinds import AnyKind
from gangline.kinds.workspace import WORKSPACE
from gangline.model import Clock, Job, JobId, JobSpec, Metric, Tenant, Timestamp
from gangline.model.kinds.workspace import WORKSPACE_LABEL, Workspace
from gangline.model.record import Record, RecordId
from gangline.operations import ObjectKind, OperationContext, get_job, put_object
from gangline.operations.objects import take_claim_away, take_secret_away
from gangline.runtime.event_files import Scalar, first_record, write_events
from gangline.settings import Settings
from gangline.storage.metrics import MetricPosition, order_of

_PAGE = 10_000
_LINKS = ("results", "checkpoints")


@dataclass(slots=True)
class _Written:
    """How far the numbers of a job have been written as event files, one for each replica."""

    folder: Path
    after: MetricPosition | None = None
    files: dict[str, Path] = field(default_factory=dict)
    steps: dict[tuple[str, str], int] = field(default_factory=dict)


class WorkspaceKeeper:
    """Beside the observer and the gateway of one service (``controller.workspaces.Gate``)."""

    def __init__(self, settings: Settings, clock: Clock, *, shared_user: bool) -> None:
        self._settings = settings
        self._clock = clock
        self._shared_user = shared_user
        self._key = _key(settings.home / "workspaces.key")
        self._used: dict[RecordId, Timestamp] = {}
        self._written: dict[tuple[RecordId, JobId], _Written] = {}
        self.context: Callable[[], OperationContext]
        """What acts with the rights of the service; set before anything is asked."""

    def token_of(self, record_id: RecordId) -> str:
        """Return what the gateway shows a program: it follows from a key of this service and is kept nowhere else."""
        return hmac.new(self._key, record_id.encode(), hashlib.sha256).hexdigest()

    def used_at(self, record_id: RecordId) -> Timestamp | None:
        """Return when somebody last used a workspace."""
        return self._used.get(record_id)

    def note_use(self, record_id: RecordId) -> None:
        """Note that somebody uses a workspace now."""
        self._used[record_id] = self._clock.now()

    async def adapt(self, record: Record[Any, Any], job: JobSpec) -> JobSpec:
        """Make ready what a run needs before it is submitted: its token and the way to this service."""
        if WORKSPACE_LABEL not in job.labels or not isinstance(record.spec, WORKSPACE.spec):
            return job
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": record.spec.claim},
            "stringData": {"token": self.token_of(record.id)},
        }
        text = json.dumps(secret)
        put_object(self.context(), job.tenant, ObjectKind.SECRET, record.spec.claim, text, new=False)
        await self.feed(record)  # a TensorBoard reads when it starts, and then only now and again
        if not self._shared_user:
            return job  # it runs as somebody whom this service would refuse; they log in
        here = {
            "GANGLINE_HOME": str(self._settings.home),
            "GANGLINE_RUNTIME_DIRECTORY": str(self._settings.runtime_directory),
            "GANGLINE_TENANT": job.tenant,
        }
        return replace(job, env={**here, **job.env})

    async def clean(self, kind: AnyKind, record: Record[Any, Any]) -> None:
        """Remove what a record had that no job uses any more."""
        if record.tenant is None:
            return
        for name in kind.secrets(record.spec):
            await take_secret_away(self.context(), record.tenant, name)
        for claim in kind.claims(record.spec):
            await take_claim_away(self.context(), record.tenant, claim)
        self._used.pop(record.id, None)

    async def feed(self, workspace: Workspace) -> None:
        """Write what the jobs of a TensorBoard have reported since, and lead to the event files of their own."""
        context, tenant = self.context(), workspace.spec.tenant
        folder = self._settings.claim_directory / tenant / workspace.spec.claim
        for name in workspace.spec.jobs:
            try:
                job = await get_job(context, tenant, name)
            except NotFoundError:
                continue  # not yet, or no more
            known = self._written.get((workspace.id, job.id))
            if known is None:
                known = self._written[workspace.id, job.id] = _Written(folder / job.spec.name)
                await context.among_files(tenant, lambda place=known.folder: shutil.rmtree(place, ignore_errors=True))  # type: ignore[misc]
            await self._write_metrics(context, tenant, job, known)
            await context.among_files(tenant, lambda job=job, known=known: _link(context, job, known.folder))  # type: ignore[misc]

    async def _write_metrics(self, context: OperationContext, tenant: Tenant, job: Job, known: _Written) -> None:
        while True:
            page = await context.store.metrics(job.id, after=known.after, limit=_PAGE)
            if page:
                await context.among_files(tenant, lambda page=page: _append(known, page))  # type: ignore[misc]
                known.after = order_of(page[-1])
            if len(page) < _PAGE:
                return


def _append(known: _Written, metrics: Iterable[Metric]) -> None:
    scalars: dict[str, list[Scalar]] = {}
    for each in metrics:
        replica = str(each.replica)
        series = (replica, each.name)
        step = known.steps.get(series, -1) + 1 if each.step is None else each.step
        known.steps[series] = step
        scalars.setdefault(replica, []).append(Scalar(each.name, each.value, step, each.at))
    for replica, found in scalars.items():
        begin = b""
        if replica not in known.files:
            at = found[0].at or 0.0
            known.files[replica] = known.folder / replica / f"events.out.tfevents.{int(at)}.gangline"
            known.files[replica].parent.mkdir(parents=True, exist_ok=True)
            begin = first_record(at)
        with known.files[replica].open("ab") as file:
            file.write(begin + write_events(found))


def _link(context: OperationContext, job: Job, folder: Path) -> None:
    """Lead to the directories in which a job keeps files of its own."""
    if not isinstance(context.engine, JobFolders):
        return
    home = context.engine.folder_of(job)
    found = {name: home / name for name in _LINKS}
    scratch = home / "attempts" / str(job.attempt) / "scratch"
    if scratch.is_dir():
        found |= {f"{each.name}-files": each / "work" for each in scratch.iterdir()}
    for name, target in found.items():
        if target.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                (folder / name).symlink_to(target)


def _key(file: Path) -> bytes:
    """The key of this service, made once."""
    if not file.exists():
        partial = file.with_name(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            written.write(secrets.token_bytes(32))
        partial.replace(file)
    return file.read_bytes()
