"""Records of any kind: made, shown, changed and deleted. Where a kind has a plan, the record driver carries it out."""

import asyncio
import difflib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gangline.errors import (
    ConflictError,
    GanglineError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    StaleVersionError,
)
from gangline.kinds import Kind, Owned
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JobId, Tenant
from gangline.model.identity import check_name
from gangline.model.record import Page, Record, RecordId, Summary
from gangline.operations.context import OperationContext
from gangline.operations.objects import bring_claim, take_claim_away, take_secret_away
from gangline.operations.submission import check_queue, check_spec
from gangline.storage.interface import Store
from gangline.storage.owned import all_records, find_record, read_owned

_TRIES = 8
_LOOK_SECONDS = 1.0
"""How often a watched record is read even if no job of it changes phase: nobody announces reported numbers."""


@dataclass(frozen=True, slots=True)
class _StoreReader:
    """What a kind's own check may look at."""

    store: Store

    async def jobs(self, *, queue: str | None = None, labels: Mapping[str, str] | None = None) -> Sequence[Job]:
        wanted = (labels or {}).items()
        return [
            job
            async for job in self.store.unfinished()
            if not job.finished and queue in (None, job.spec.queue) and wanted <= job.spec.labels.items()
        ]

    async def records(self, kind: Kind[Spec, Status, View]) -> Sequence[Record[Spec, Status]]:
        return await all_records(self.store, kind)


async def create_record(
    context: OperationContext, kind: Kind[Spec, Status, View], record_id: RecordId, spec: Spec
) -> View:
    """Make a record, or return the one that this very request made before."""
    _check_caller(context, spec.tenant)
    check_name(record_id, "id")
    known = await find_record(context.store, kind, spec.tenant, spec.name)
    if known is None:
        record = Record(id=record_id, spec=spec, status=kind.status(), created_at=context.clock.now())
        await _check(context, kind, None, record)
        _check_files(context, kind, spec)
        _check_config_maps(context, kind, spec)
        await _check_templates(context, kind, spec)
        with suppress(ConflictError):  # lost a race: whoever won it is found below
            await _send(context, kind, await context.store.records(kind).create(record))
        known = await find_record(context.store, kind, spec.tenant, spec.name)
    if known is None or known.id != record_id or known.spec != spec:
        whose = f"tenant '{spec.tenant}' already has" if kind.namespaced else "there already is"
        command = f"gangline {kind.command or kind.name}"
        other = f"change it ({command} edit {spec.name}), " if kind.editable else ""
        raise ConflictError(
            f"{whose} {kind.one} named '{spec.name}', or another one with the same id; "
            f"{other}delete it ({command} delete {spec.name}) or use another name"
        )
    context.record_link.changed(kind.name)
    return await _shown(context, kind, known)


async def _send(context: OperationContext, kind: Kind[Spec, Status, View], record: Record[Spec, Status]) -> None:
    """Send once what it and all its jobs need to where they will run; what cannot be sent was never made."""
    try:
        if record.tenant is not None:
            for claim in kind.claims(record.spec):
                await bring_claim(context, record.tenant, claim)
        if context.uploader is None:
            return
        for template in kind.templates(record.spec):
            await context.uploader.send_code(JobId(record.id), template)
    except GanglineError:
        await context.store.records(kind).remove(record)
        raise


async def list_records(
    context: OperationContext,
    kind: Kind[Spec, Status, View],
    tenant: Tenant | None,
    *,
    limit: int,
    after: str | None = None,
) -> Page[View]:
    """Return one page of the tenant's records, newest first; of a kind that always has some, by name."""
    _check_caller(context, tenant)
    if kind.always:
        records = await all_records(context.store, kind, tenant)
        known = [_confined(context, kind, each, records) for each in records]
        left = [each for each in known if each is not None and (after is None or each.name > after)]
        more = len(left) > limit
        found = Page(items=tuple(left[:limit]), next=left[limit - 1].name if more else None)
    else:
        found = await context.store.records(kind).list(tenant, limit=limit, after=after)
    shown = tuple([await _shown(context, kind, record) for record in found.items])
    return Page(items=shown, next=found.next, unreadable=found.unreadable)


async def summarize_records(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant
) -> Sequence[Summary]:
    """Return what lists of a tenant's records are filtered and sorted by."""
    _check_caller(context, tenant)
    return await context.store.records(kind).summaries(tenant)


async def get_records(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant, names: Sequence[str]
) -> Sequence[View]:
    """Return the records of these names that exist."""
    _check_caller(context, tenant)
    found = await context.store.records(kind).find_all(tenant, names)
    return [await _shown(context, kind, record) for record in found if not record.deleting]


async def get_record(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant | None, name: str
) -> View:
    """Return one record."""
    _check_caller(context, tenant)
    return await _shown(context, kind, await _find(context, kind, tenant, name))


async def edit_record(
    context: OperationContext, kind: Kind[Spec, Status, View], spec: Spec, *, version: int | None = None
) -> View:
    """Replace what a record's file says; given the version that somebody read, only if it is still that one.

    What is already as it should be was changed by this very request, which was repeated.
    """
    _check_caller(context, spec.tenant)
    if not kind.editable:
        raise InvalidInputError(f"{kind.one} cannot be changed", expected="another one under another name")
    for _ in range(_TRIES):
        before = await _find(context, kind, spec.tenant, spec.name)
        if version not in (None, before.version) and spec != before.spec:
            raise StaleVersionError(kind.name, spec.name, expected=version or 0, found=before.version)
        after = replace(before, spec=spec)
        await _check(context, kind, before, after)
        if kind.files(spec) != kind.files(before.spec):
            _check_files(context, kind, spec)
        _check_config_maps(context, kind, spec)
        await _check_templates(context, kind, spec, before=before.spec)
        after = kind.reopened(after) if after != before else after
        try:
            saved = before if after == before else await _save(context, kind, after)
        except StaleVersionError:
            continue
        context.record_link.changed(kind.name)
        return await _shown(context, kind, saved)
    raise _too_busy(kind.name, spec.name)


async def _save(
    context: OperationContext, kind: Kind[Spec, Status, View], record: Record[Spec, Status]
) -> Record[Spec, Status]:
    records = context.store.records(kind)
    if record.version == 0:  # it always existed, and nobody has changed it before
        try:
            return await records.create(replace(record, created_at=context.clock.now()))
        except ConflictError as error:
            raise StaleVersionError(kind.name, record.name, expected=0, found=None) from error
    return await records.save(record)


async def do_verb(
    context: OperationContext,
    kind: Kind[Spec, Status, View],
    tenant: Tenant | None,
    name: str,
    verb: str,
    *,
    values: Mapping[str, str] | None = None,
) -> View:
    """Do something with a record that its kind has a verb for."""
    known = {each.name: each for each in kind.verbs}
    if verb not in known:
        raise NotFoundError("verb", verb, hint=f"{kind.one} has {', '.join(known) or 'no verbs of its own'}")
    wanted = known[verb]
    if values and not wanted.takes:
        raise InvalidInputError(f"{verb} takes no values", field="body", expected="an empty body")
    given = (values or {},) if wanted.takes else ()
    return await _change(context, kind, tenant, name, lambda record: wanted.change(record, *given))


async def delete_record(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant | None, name: str
) -> View:
    """Make a record disappear with all its jobs, stopping them first if they run."""
    _check_caller(context, tenant)
    record = await _find(context, kind, tenant, name)
    await _check(context, kind, record, None)
    if kind.owns_jobs:
        return await _change(context, kind, tenant, name, lambda found: replace(found, deleting=True))
    shown = await _shown(context, kind, record)
    await context.store.records(kind).remove(record)
    if tenant is not None:
        for secret in kind.secrets(record.spec):
            await take_secret_away(context, tenant, secret)
        for claim in kind.claims(record.spec):
            await take_claim_away(context, tenant, claim)
    context.record_link.changed(kind.name)
    return shown


async def watch_record(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant | None, name: str
) -> AsyncGenerator[View, None]:
    """Return a record as it is and whenever something of it has changed; ends with its removal."""
    _check_caller(context, tenant)
    record = await _find(context, kind, tenant, name)
    shown = await _shown(context, kind, record)
    changes = context.link.watch()
    waiting = asyncio.ensure_future(anext(changes))
    yield shown
    try:
        while True:
            await asyncio.wait({waiting}, timeout=_LOOK_SECONDS)
            if waiting.done():
                changed = waiting.result()
                waiting = asyncio.ensure_future(anext(changes))
                if not changed.startswith(f"{record.id}-"):
                    continue
            known = await find_record(context.store, kind, tenant, name)
            if known is None or known.id != record.id:
                return
            current = await _shown(context, kind, known)
            if current != shown:
                shown = current
                yield shown
    finally:
        waiting.cancel()


async def _change(
    context: OperationContext,
    kind: Kind[Spec, Status, View],
    tenant: Tenant | None,
    name: str,
    changed: Callable[[Record[Spec, Status]], Record[Spec, Status]],
) -> View:
    _check_caller(context, tenant)
    for _ in range(_TRIES):
        record = await _find(context, kind, tenant, name)
        wanted = record if record.deleting else changed(record)
        try:
            saved = record if wanted == record else await context.store.records(kind).save(wanted)
        except StaleVersionError:
            continue
        context.record_link.changed(kind.name)
        return await _shown(context, kind, saved)
    raise _too_busy(kind.name, name)


async def _find(
    context: OperationContext, kind: Kind[Spec, Status, View], tenant: Tenant | None, name: str
) -> Record[Spec, Status]:
    found = await find_record(context.store, kind, tenant, name)
    if found is None or not kind.namespaced:
        known = await all_records(context.store, kind, tenant)
        found = None if found is None else _confined(context, kind, found, known)
    if found is None:
        names = [record.name for record in known if _confined(context, kind, record, known) is not None]
        nearest = difflib.get_close_matches(name, names, n=1)
        raise NotFoundError(kind.name, name, hint=f"did you mean '{nearest[0]}'?" if nearest else None)
    return found


def _confined(
    context: OperationContext,
    kind: Kind[Spec, Status, View],
    record: Record[Spec, Status],
    records: Sequence[Record[Spec, Status]],
) -> Record[Spec, Status] | None:
    """Return what the caller may see of a record, among all of its kind; None if nothing."""
    tenants = context.caller.tenants
    if tenants is None or kind.namespaced:
        return record
    return kind.confined(record, tenants, [each.spec for each in records])


async def _check(
    context: OperationContext,
    kind: Kind[Spec, Status, View],
    before: Record[Spec, Status] | None,
    after: Record[Spec, Status] | None,
) -> None:
    if kind.check is not None:
        await kind.check(before, after, _StoreReader(context.store))


async def _check_templates(
    context: OperationContext, kind: Kind[Spec, Status, View], spec: Spec, before: Spec | None = None
) -> None:
    """Refuse a record whose jobs could not be submitted: they are its tenant's, whatever they say themselves.

    What it said before is not looked at again.
    """
    known = () if before is None else kind.templates(before)
    for template in kind.templates(spec):
        if template not in known:
            await check_spec(context, template if spec.tenant is None else replace(template, tenant=spec.tenant))
    for queue in kind.queues(spec):
        if spec.tenant is not None and (before is None or queue not in kind.queues(before)):
            await check_queue(context, queue, spec.tenant)


def _check_files(context: OperationContext, kind: Kind[Spec, Status, View], spec: Spec) -> None:
    """Refuse files of this machine from somebody who shares it: they are opened with the rights of the service."""
    if kind.files(spec) and context.caller.tenants is not None:
        raise PermissionDeniedError(
            f"{kind.one} that names files of the service's machine is for its operators to make"
        )


def _check_config_maps(context: OperationContext, kind: Kind[Spec, Status, View], spec: Spec) -> None:
    """Refuse a record whose plan would read what its maker may not."""
    for namespace, _ in kind.config_maps(spec):
        context.caller.check(Tenant(namespace))


async def _shown(context: OperationContext, kind: Kind[Spec, Status, View], record: Record[Spec, Status]) -> View:
    owned = Owned() if kind.view is None else await read_owned(context.store, kind, record)
    return kind.show(record, owned)


def _check_caller(context: OperationContext, tenant: Tenant | None) -> None:
    if tenant is not None:
        context.caller.check(tenant)


def _too_busy(kind: str, name: str) -> ConflictError:
    return ConflictError(f"{kind} '{name}' changes faster than this request can be recorded; try again")
