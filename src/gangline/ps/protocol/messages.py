"""The words of the protocol: one small struct for each request and each reply.

They travel as MessagePack arrays (typed and validated by msgspec; no pickle) in front of the raw bytes of the arrays
they speak of; wire.py frames them. A block list names the payload's blocks in order: their sizes follow from the map.
"""

from __future__ import annotations

import msgspec
import numpy as np

from gangline.ps.blocks import BlockMap, Tensor
from gangline.ps.protocol.lead_state import LeadState
from gangline.ps.settings import Training
from gangline.ps.shards import ShardPlan, ShardRange


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Anything that travels."""


class Hello(Message, frozen=True, array_like=True, tag=1):
    """First on every connection: which job, who, and (with a descriptor attached) the size of a shared image."""

    job: str
    sender: str
    image_bytes: int = 0


class Join(Message, frozen=True, array_like=True, tag=2):
    """To the lead: take me in. A worker that comes back after a break tells what it knows."""

    worker: str
    tensors: tuple[Tensor, ...]
    proposed: int
    incarnation: int = 0
    clock: int = 0
    observer: bool = False
    map: BlockMap | None = None
    plan: ShardPlan | None = None
    held: list[ShardRange] = []
    done: list[ShardRange] = []
    training: Training | None = None


class Initialise(Message, frozen=True, array_like=True, tag=3):
    """Payload: first values of these blocks. A block that already has values keeps them."""

    map: BlockMap
    blocks: tuple[int, ...]
    rebuilt: bool = False  # the values are a worker's own, uploaded because the server lost everything
    training: Training | None = None


class Ready(Message, frozen=True, array_like=True, tag=4):
    """To the lead: the first values are in place."""

    worker: str


class AwaitReady(Message, frozen=True, array_like=True, tag=5):
    """To the lead: answer when the first values are in place (or when it is my turn to upload them)."""

    worker: str


class Push(Message, frozen=True, array_like=True, tag=6):
    """Payload: gradients of these blocks, computed from values of the versions in `bases`.

    A large push travels as several messages with one sequence number and different blocks, the last one `final`.
    """

    worker: str
    incarnation: int
    sequence: int
    clock: int
    map_version: int
    blocks: tuple[int, ...]
    bases: tuple[int, ...]
    scale: float = 1.0
    pull: bool = False
    replay: bool = False
    final: bool = True


class Pull(Message, frozen=True, array_like=True, tag=7):
    """Send me these blocks; under bsp, close the rounds up to `clock` first."""

    map_version: int
    blocks: tuple[int, ...]
    clock: int = 0


class AskPosition(Message, frozen=True, array_like=True, tag=8):
    """Which of my pushes have you applied to all of these blocks?"""

    worker: str
    incarnation: int
    map_version: int
    blocks: tuple[int, ...]


class Advance(Message, frozen=True, array_like=True, tag=9):
    """To the lead: I have made `clock` steps; answer when I may begin the next."""

    worker: str
    incarnation: int
    clock: int


class Renew(Message, frozen=True, array_like=True, tag=10):
    """To the lead: I am alive."""

    worker: str
    incarnation: int


class Leave(Message, frozen=True, array_like=True, tag=11):
    """To the lead: I am done; my leases are free."""

    worker: str
    incarnation: int


class TakeShard(Message, frozen=True, array_like=True, tag=12):
    """To the lead: lease me a shard; answered when there is one, or when all are done."""

    worker: str
    incarnation: int
    plan: ShardPlan


class FinishShard(Message, frozen=True, array_like=True, tag=13):
    """To the lead: trained on the shard up to position `reached`; the rest, if any, is free."""

    worker: str
    incarnation: int
    shard: ShardRange
    reached: int


class AskProgress(Message, frozen=True, array_like=True, tag=14):
    """To the lead: how far is the training?"""


class AskMap(Message, frozen=True, array_like=True, tag=15):
    """The newest map you know. The lead answers when no other is being prepared: then it is the one in force."""


class ProposeServers(Message, frozen=True, array_like=True, tag=16):
    """To the lead: prepare a map for these servers, the first of which shall lead; to be put in force in `seconds`.

    With the version it was worked out from, it is refused when another one is in force.
    """

    servers: tuple[str, ...]
    seconds: float
    based_on: int = 0


class Freeze(Message, frozen=True, array_like=True, tag=17):
    """Hand me these blocks and take no more pushes to them.

    If no new map has come after `seconds`, anyone who knows the one in force thaws them with Adopt.
    """

    blocks: tuple[int, ...]
    seconds: float


class Thaw(Message, frozen=True, array_like=True, tag=27):
    """Nothing comes of the move: take pushes again to the blocks that I froze on this connection."""


class Install(Message, frozen=True, array_like=True, tag=18):
    """Payload: values and optimizer state of one block, to be owned when the next map is in force."""

    block: MovedBlock
    training: Training


class Commit(Message, frozen=True, array_like=True, tag=19):
    """To the lead: the blocks have moved; put the proposed map in force."""

    map: BlockMap


class Adopt(Message, frozen=True, array_like=True, tag=20):
    """This map is in force: lead if it names you first, and drop the blocks that it gives to others."""

    map: BlockMap


class Withdraw(Message, frozen=True, array_like=True, tag=23):
    """To the lead: nothing came of the proposed map; go on with the one in force."""


class HandOver(Message, frozen=True, array_like=True, tag=24):
    """To the lead: tell me all you know, and answer nobody until the proposed map is in force or withdrawn."""


class TakeOver(Message, frozen=True, array_like=True, tag=25):
    """To the next lead: what the lead knows. It counts once the map in force names you first."""

    state: LeadState
    training: Training


class Persist(Message, frozen=True, array_like=True, tag=22):
    """Answer when snapshots hold this push of mine, or when you cannot write any."""

    worker: str
    incarnation: int
    sequence: int


class MovedBlock(Message, frozen=True, array_like=True, tag=21):
    """All there is to know of a block but its bytes.

    Those follow as payload: the value, the optimizer's states in order, the gradients of the pushes that wait.
    """

    number: int
    offset: int
    dtype: str
    size: int
    version: int
    closed: int
    rebuilt: bool
    states: list[tuple[str, str, int]]
    sequences: dict[str, tuple[int, int]]
    pending: list[PendingPush] = []


class PendingPush(Message, frozen=True, array_like=True, tag=26):
    """A push that waits in its block for the round to close, under bsp."""

    round: int
    worker: str
    incarnation: int
    sequence: int
    scale: float


class Failed(Message, frozen=True, array_like=True, tag=40):
    """The request was refused; `code` names the error class."""

    code: str
    message: str


class Done(Message, frozen=True, array_like=True, tag=41):
    """The request was carried out."""


class Joined(Message, frozen=True, array_like=True, tag=42):
    """What a worker needs to begin."""

    incarnation: int
    clock: int
    map: BlockMap
    ready: bool
    upload: bool
    lease_seconds: float
    training: Training


class Turn(Message, frozen=True, array_like=True, tag=43):
    """Answer to AwaitReady: the values are in place, or it is the asker's turn to upload them."""

    ready: bool


class Pushed(Message, frozen=True, array_like=True, tag=44):
    """Payload when asked for: the values. `durable` is the worker's last push that a snapshot on disk holds."""

    versions: tuple[int, ...]
    staleness: int
    applied: bool
    durable: int


class Values(Message, frozen=True, array_like=True, tag=45):
    """Payload: the values."""

    versions: tuple[int, ...]


class Position(Message, frozen=True, array_like=True, tag=46):
    """The worker's last push applied to all the blocks asked for.

    `rebuilt` says that the blocks were uploaded anew by a worker: what was once acknowledged is in those values.
    """

    sequence: int
    rebuilt: bool


class ShardGrant(Message, frozen=True, array_like=True, tag=47):
    """A leased shard, or none because all are done; and the clock to go on from."""

    shard: ShardRange | None
    clock: int = 0


class Progress(Message, frozen=True, array_like=True, tag=48):
    """How far the training is."""

    examples_done: int = 0
    examples_total: int = 0
    epochs_done: int = 0
    workers: tuple[str, ...] = ()
    finished: bool = False


class CurrentMap(Message, frozen=True, array_like=True, tag=49):
    """The newest map the server knows, and whether the server was told to stop."""

    map: BlockMap
    leaving: bool = False


class Proposed(Message, frozen=True, array_like=True, tag=52):
    """The map in force and the one that may follow it."""

    current: BlockMap
    proposed: BlockMap


class HandedOver(Message, frozen=True, array_like=True, tag=53):
    """What the next lead must know."""

    state: LeadState
    training: Training


class Frozen(Message, frozen=True, array_like=True, tag=50):
    """Payload: the blocks asked for, one after another."""

    blocks: tuple[MovedBlock, ...]
    training: Training


class Persisted(Message, frozen=True, array_like=True, tag=51):
    """The worker's last push that snapshots hold."""

    sequence: int


Request = (
    Hello
    | Join
    | Initialise
    | Ready
    | AwaitReady
    | Push
    | Pull
    | AskPosition
    | Advance
    | Renew
    | Leave
    | TakeShard
    | FinishShard
    | AskProgress
    | AskMap
    | ProposeServers
    | Freeze
    | Thaw
    | Install
    | Commit
    | Adopt
    | Withdraw
    | HandOver
    | TakeOver
    | Persist
)
Reply = (
    Failed
    | Done
    | Joined
    | Turn
    | Pushed
    | Values
    | Position
    | ShardGrant
    | Progress
    | CurrentMap
    | Proposed
    | HandedOver
    | Frozen
    | Persisted
)

encode = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
structs_replace = msgspec.structs.replace


def moved_kinds(block: MovedBlock) -> list[tuple[str, int]]:
    """Element type and length of each array in a moved block's payload."""
    value = (block.dtype, block.size)
    return [value, *((dtype, size) for _, dtype, size in block.states), *[value] * len(block.pending)]


def moved_bytes(block: MovedBlock) -> int:
    """Size of a moved block's payload."""
    return sum(np.dtype(dtype).itemsize * size for dtype, size in moved_kinds(block))
