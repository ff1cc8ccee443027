"""What the lead remembers: kept in snapshots, and handed on when another server becomes the lead."""

from __future__ import annotations

import msgspec

from gangline.ps.blocks import BlockMap
from gangline.ps.shards import ShardState


class Member(msgspec.Struct, array_like=True):
    """A worker with a lease. Observers hold a lease but no clock: nobody waits for them, nor for who has no shard."""

    incarnation: int
    clock: int
    expires: float
    observer: bool
    without_shard: bool = False


class LeadState(msgspec.Struct, array_like=True):
    """All that must survive a restart or a change of the lead. A server that does not lead knows the map alone."""

    map: BlockMap | None = None
    ready: bool = False
    clock: int = 0
    incarnations: dict[str, int] = {}
    members: dict[str, Member] = {}
    shards: ShardState | None = None
