"""Where every parameter lies: tensors cut into blocks, blocks given to servers. Pure values and functions.

The whole model is thought of as one *image*: the tensors one after another, each aligned. A block is a range of that
image and belongs to one server. Cutting never changes during a job; only the owner of a block does, and each change
makes a new version of the map.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from gangline.ps.errors import ShapeMismatchError, UnknownNameError

# Spelled out, because numpy.typing costs every worker a millisecond of its start.
Array = np.ndarray[Any, np.dtype[np.floating]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

ALIGNMENT = 64
BLOCK_BYTES = 4 << 20


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """Name, element type and shape of one parameter."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * np.dtype(self.dtype).itemsize


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Elements `start` to `stop` of one tensor, at byte `offset` of the image, owned by server number `server`."""

    tensor: int
    start: int
    stop: int
    offset: int
    nbytes: int
    dtype: str
    server: int


class BlockMap(msgspec.Struct, frozen=True, array_like=True):
    """One version of who owns what. A block's number is its place in `blocks`."""

    version: int
    servers: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    blocks: tuple[Block, ...]

    @property
    def image_bytes(self) -> int:
        """Size of the image of the whole model."""
        return image_bytes(self.tensors)

    def owned_by(self, server: int) -> tuple[int, ...]:
        """Numbers of the blocks of one server, in image order."""
        return tuple(number for number, block in enumerate(self.blocks) if block.server == server)

    def given_to(self, address: str) -> tuple[int, ...]:
        """Numbers of the blocks of the server at an address; none if it is not among the servers."""
        return self.owned_by(self.servers.index(address)) if address in self.servers else ()


def describe(arrays: Mapping[str, Array]) -> tuple[Tensor, ...]:
    """The tensors of a model; refuses what gradients make no sense for."""
    if not arrays:
        raise ShapeMismatchError("the model has no parameters")
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise UnknownNameError(f"parameter {name!r} is named by {type(name).__name__}; names are strings")
        if array.dtype not in (np.float32, np.float64):
            raise ShapeMismatchError(f"parameter {name!r} has type {array.dtype}; float32 and float64 can be trained")
    return tuple(Tensor(name, array.dtype.str, array.shape) for name, array in arrays.items())


def image_offsets(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Where each tensor begins in the image; the last entry is where the image ends."""
    offsets = [0]
    for tensor in tensors:
        offsets.append(_aligned(offsets[-1] + tensor.nbytes))
    return tuple(offsets)


def image_bytes(tensors: Sequence[Tensor]) -> int:
    """Size of the image, at least one aligned unit so that it can be mapped."""
    return max(ALIGNMENT, image_offsets(tensors)[-1])


def image_views(buffer: memoryview, tensors: Sequence[Tensor]) -> dict[str, Array]:
    """The parameters as arrays that share the image's memory."""
    views: dict[str, Array] = {}
    for tensor, offset in zip(tensors, image_offsets(tensors)[:-1], strict=True):
        flat = np.frombuffer(buffer, dtype=tensor.dtype, count=tensor.size, offset=offset)
        views[tensor.name] = flat.reshape(tensor.shape)
    return views


def spread(tensors: Sequence[Tensor], servers: Sequence[str], block_bytes: int = BLOCK_BYTES) -> BlockMap:
    """Cut the tensors and give each block, largest first, to the server that has least."""
    cut = list(_cut(tensors, block_bytes))
    load = [0] * len(servers)
    owners = [0] * len(cut)
    for number in sorted(range(len(cut)), key=lambda number: (-cut[number].nbytes, number)):
        owners[number] = min(range(len(servers)), key=lambda server: (load[server], server))
        load[owners[number]] += cut[number].nbytes
    blocks = tuple(_owned(block, owner) for block, owner in zip(cut, owners, strict=True))
    return BlockMap(1, tuple(servers), tuple(tensors), blocks)


def respread(current: BlockMap, servers: Sequence[str]) -> BlockMap:
    """The next map for another set of servers, moving as few bytes as evenness allows.

    Blocks of servers that leave go to the least loaded; then single blocks move from the fullest to the emptiest
    server for as long as that narrows the gap.
    """
    place = {address: number for number, address in enumerate(servers)}
    owners = [place.get(current.servers[block.server], -1) for block in current.blocks]
    load = [0] * len(servers)
    for block, owner in zip(current.blocks, owners, strict=True):
        if owner >= 0:
            load[owner] += block.nbytes
    for number in sorted(range(len(owners)), key=lambda number: -current.blocks[number].nbytes):
        if owners[number] < 0:
            owners[number] = load.index(min(load))
            load[owners[number]] += current.blocks[number].nbytes
    _level(current.blocks, owners, load)
    blocks = tuple(_owned(block, owner) for block, owner in zip(current.blocks, owners, strict=True))
    return BlockMap(current.version + 1, tuple(servers), current.tensors, blocks)


def readdressed(known: BlockMap, before: Sequence[str], now: Sequence[str]) -> BlockMap:
    """The map after a job's servers got other addresses: each is the one at its old place in the job's list.

    It is a new version, unless the list does not say where all its servers are now: one that came later knows more.
    """
    moved = dict(zip(before, now, strict=False))
    servers = tuple(moved.get(address, address) for address in known.servers)
    if servers == known.servers:
        return known
    complete = all(address in moved for address in known.servers)
    return msgspec.structs.replace(known, version=known.version + complete, servers=servers)


def check_same(declared: Sequence[Tensor], held: Sequence[Tensor]) -> None:
    """Refuse a model that differs from the one the servers hold, naming the first difference."""
    known = {tensor.name: tensor for tensor in held}
    for tensor in declared:
        if tensor.name not in known:
            raise UnknownNameError(f"parameter {tensor.name!r} is unknown; the servers hold {sorted(known)}")
        if tensor != known[tensor.name]:
            have = known[tensor.name]
            want = f"the servers hold {have.dtype} {have.shape}"
            raise ShapeMismatchError(f"parameter {tensor.name!r} is {tensor.dtype} {tensor.shape}; {want}")
    if tuple(declared) != tuple(held):
        missing = sorted(set(known) - {tensor.name for tensor in declared})
        raise ShapeMismatchError(f"the model lacks {missing} or names its parameters in another order")


def _cut(tensors: Sequence[Tensor], block_bytes: int) -> Iterable[Block]:
    for number, (tensor, offset) in enumerate(zip(tensors, image_offsets(tensors)[:-1], strict=True)):
        width = np.dtype(tensor.dtype).itemsize
        length = max(1, block_bytes // width)
        for start in range(0, tensor.size, length):
            stop = min(tensor.size, start + length)
            yield Block(number, start, stop, offset + start * width, (stop - start) * width, tensor.dtype, 0)


def _level(blocks: Sequence[Block], owners: list[int], load: list[int]) -> None:
    sizes: list[list[tuple[int, int]]] = [[] for _ in load]
    for number, owner in enumerate(owners):
        sizes[owner].append((blocks[number].nbytes, number))
    for held in sizes:
        held.sort()
    while True:
        full, empty = load.index(max(load)), load.index(min(load))
        place = _best_to_move(sizes[full], load[full] - load[empty])
        if place is None:
            return
        nbytes, number = sizes[full].pop(place)
        insort(sizes[empty], (nbytes, number))
        owners[number] = empty
        load[full] -= nbytes
        load[empty] += nbytes


def _best_to_move(held: Sequence[tuple[int, int]], gap: int) -> int | None:
    """Place of the block nearest to half the gap, the lowest number of its size; None if none would narrow it.

    Found without a look at every block: a model may have ten thousand small ones, and thousands of them may move.
    """
    middle = bisect_left(held, (gap / 2, -1))
    beside = [held[place][0] for place in (middle - 1, middle) if 0 <= place < len(held) and held[place][0] < gap]
    places = [bisect_left(held, (nbytes, -1)) for nbytes in beside]
    return max(places, key=lambda place: (min(held[place][0], gap - held[place][0]), -held[place][1]), default=None)


def _owned(block: Block, server: int) -> Block:
    return msgspec.structs.replace(block, server=server)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
