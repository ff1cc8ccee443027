"""What movers tell of their work (``gangline.data.reports``), read for every engine alike."""

from typing import Literal

import msgspec

from gangline.lifecycle.events import TransferReported
from gangline.model import GangId, Timestamp
from gangline.model.jobs.transfer import DataVersion, TransferProgress


class _Report(msgspec.Struct, frozen=True):
    stage: Literal["inputs", "outputs"]
    progress: TransferProgress | None = None
    moved: tuple[DataVersion, ...] = ()


_decoder = msgspec.json.Decoder(_Report)


def read_report(text: bytes | str, gang_id: GangId, at: Timestamp) -> TransferReported | None:
    """Read one report; None if it is none."""
    try:
        found = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    job_id, attempt = gang_id
    return TransferReported(
        job_id=job_id,
        at=at,
        attempt=attempt,
        storing=found.stage == "outputs",
        progress=found.progress,
        moved=found.moved,
    )
