"""Trying a change without making it: the same operation, on records that are forgotten and with nobody told."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

from gangline.model import Explanation, JobId, JobSpec, Tenant
from gangline.operations.context import ControllerLink, OperationContext, RecordLink, Uploader
from gangline.storage.rehearsal import RehearsalStore


def rehearsing(context: OperationContext) -> OperationContext:
    """Return a context that changes nothing."""
    return replace(
        context,
        store=RehearsalStore(context.store),
        link=_SilentLink(context.link),
        record_link=_NobodyTold(),
        uploader=None if context.uploader is None else _NothingSent(),
        rehearsal=True,
    )


@dataclass(frozen=True, slots=True)
class _SilentLink:
    """Answers as the controller does, and tells it nothing."""

    behind: ControllerLink

    def changed(self, job_id: JobId) -> None:
        """Tell nobody."""

    def explanation(self, job_id: JobId) -> Explanation | None:
        return self.behind.explanation(job_id)

    def watch(self) -> AsyncIterator[JobId]:
        return self.behind.watch()


class _NobodyTold:
    def changed(self, kind: str) -> None:
        """Tell nobody."""


class _NothingSent:
    async def send_code(self, job_id: JobId, spec: JobSpec) -> None:
        """Send nothing."""

    async def send_object(self, tenant: Tenant, document: Mapping[str, object]) -> None:
        """Send nothing."""

    async def remove_object(self, tenant: Tenant, kind: str, name: str) -> None:
        """Remove nothing."""


_conforms: tuple[type[ControllerLink], type[RecordLink], type[Uploader]] = (_SilentLink, _NobodyTold, _NothingSent)
