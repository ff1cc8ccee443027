"""The worker's view of training with parameter servers: the only part of this package that training code touches.

    with ps.connect(model) as session:
        for shard in session.shards(examples=60_000, size=500, epochs=5):
            for batch in shard.batches(100):
                loss, gradients = ...            # computed from session.parameters
                session.push_pull(gradients, loss=loss)

One thread uses a session. `session.parameters` are views of memory that pulls write into: read them, do not keep copies
of the mapping's old values by reference, and do not write to them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Self, cast

import numpy as np

from gangline import runtime
from gangline.ps.blocks import Array, Indices, Tensor, describe, image_bytes, image_views
from gangline.ps.consistency import parse_consistency
from gangline.ps.errors import NonFiniteGradientError, SettingsError, ShapeMismatchError, UnknownNameError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import Credentials
from gangline.ps.protocol.link import Link, RemoteLink
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.settings import NonFinitePolicy, Settings
from gangline.ps.shards import ShardPlan, ShardRange, epoch_order
from gangline.ps.worker.heartbeat import Heartbeat
from gangline.ps.worker.push_log import LoggedPush
from gangline.ps.worker.server_group import Limits, ServerGroup
from gangline.ps.worker.statistics import StepStatistics

REMEMBERED_SHARDS = 1000
FOLLOW_SLICE_SECONDS = 0.1


class Shard:
    """A leased part of one epoch."""

    def __init__(self, leased: ShardRange, indices: Indices) -> None:
        self.leased = leased
        self.epoch = leased.epoch
        self.indices = indices
        self.reached = leased.stop

    def batches(self, size: int) -> Iterator[Indices]:
        """Indices of the examples, `size` at a time; ends early when the stop notice comes."""
        self.reached = self.leased.start
        for start in range(0, len(self.indices), size):
            if runtime.stopping():
                return
            batch = self.indices[start : start + size]
            yield batch
            self.reached = self.leased.start + start + len(batch)


class Session:
    """One worker's (or observer's) connection to the servers. Made by `connect`."""

    def __init__(
        self,
        tensors: tuple[Tensor, ...],
        image: SharedImage,
        servers: ServerGroup,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._tensors = tensors
        self._image = image
        self._servers = servers
        self._number = {tensor.name: number for number, tensor in enumerate(tensors)}
        self._rule = parse_consistency(servers.joined.training.consistency)
        self._policy = NonFinitePolicy(servers.joined.training.non_finite)
        self._sequence = 0
        self._heartbeat = heartbeat
        self._order: tuple[int, Indices] | None = None
        self._done: deque[ShardRange] = deque(maxlen=REMEMBERED_SHARDS)
        self.parameters: Mapping[str, Array] = image_views(image.values, tensors)
        self.gradients: Mapping[str, Array] = image_views(image.gradients, tensors)
        self.statistics = StepStatistics()

    @property
    def step(self) -> int:
        """Steps this worker's clock has made."""
        return self._servers.clock

    def push_pull(self, gradients: Mapping[str, object], *, loss: float | None = None, scale: float = 1.0) -> None:
        """Send gradients, wait as the consistency demands, and take the new values into `parameters`."""
        self._step(gradients, loss=loss, scale=scale, pull=not self._rule.gated)
        if self._rule.gated:
            self.pull()

    def push(self, gradients: Mapping[str, object], *, loss: float | None = None, scale: float = 1.0) -> None:
        """Send gradients. `scale` multiplies the servers' learning rate for this step (a schedule, for example)."""
        self._step(gradients, loss=loss, scale=scale, pull=False)

    def pull(self) -> None:
        """Take the servers' values into `parameters`."""
        with self.statistics.spending("pull"):
            self._servers.pull()

    def shards(self, *, examples: int, size: int, epochs: int, seed: int = 0) -> Iterator[Shard]:
        """Leased shards until every example was seen `epochs` times by someone, or the stop notice comes."""
        plan = ShardPlan(examples, size, epochs)
        self._remember(plan, None)
        while not runtime.stopping():
            with self.statistics.spending("wait"):
                grant = self._servers.ask_lead(lambda: m.TakeShard(*self._who, plan))
            assert isinstance(grant, m.ShardGrant)
            if grant.shard is None:
                return
            self._servers.clock = max(self._servers.clock, grant.clock)
            self._remember(plan, grant.shard)
            shard = Shard(grant.shard, self._indices(plan, grant.shard, seed))
            yield shard
            with self.statistics.spending("wait"):
                self._finish(plan, shard)

    def progress(self) -> m.Progress:
        """How far all workers together are."""
        reply = self._servers.ask_lead(m.AskProgress)
        assert isinstance(reply, m.Progress)
        return reply

    def follow(self, every_seconds: float = 1.0) -> Iterator[m.Progress]:
        """For observers: fresh `parameters` and the progress now and then, a last time when training has finished."""
        while True:
            progress = self.progress()
            self.pull()
            yield progress
            if progress.finished or not _wait_unless_stopping(every_seconds):
                return

    def close(self) -> None:
        """Have every push confirmed, give back what is leased, and leave."""
        if self._heartbeat:
            self._heartbeat.stop()
        self.statistics.report(self.step)
        self._servers.wait_for_servers()
        self._servers.ask_lead(lambda: m.Leave(*self._who))
        self.abandon()

    def abandon(self) -> None:
        """Let go without a word, as after an error; the lease ends by itself."""
        if self._heartbeat:
            self._heartbeat.stop()
        self._servers.close()
        self._image.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    @property
    def _who(self) -> tuple[str, int]:
        return self._servers.join_request.worker, self._servers.joined.incarnation

    def _step(self, gradients: Mapping[str, object], *, loss: float | None, scale: float, pull: bool) -> None:
        if self._heartbeat:
            self._heartbeat.check()
        if not math.isfinite(scale):
            raise SettingsError(f"scale must be a finite number, not {scale}: it would spoil everybody's values")
        flat = self._flatten(gradients)
        norm = _norm(flat)
        self.statistics.begin_step()  # now and not before: a framework may compute a gradient only when it is looked at
        staleness = 0
        if self._may_send(norm):
            self._sequence += 1
            push = LoggedPush(sequence=self._sequence, clock=self.step + 1, scale=scale, gradients=flat)
            with self.statistics.spending("push"):
                outcome = self._servers.push(push, pull=pull)
            staleness = outcome.staleness
            self.statistics.dropped_pushes += not outcome.applied
        self._servers.clock += 1
        if self._rule.gated:
            with self.statistics.spending("wait"):
                self._servers.gate(self.step)
        self.statistics.end_step(step=self.step, staleness=staleness, gradient_norm=norm, loss=loss)

    def _flatten(self, gradients: Mapping[str, object]) -> dict[int, Array]:
        unknown = sorted(set(gradients) - set(self._number))
        if unknown:
            raise UnknownNameError(f"gradients for unknown parameters {unknown}; known are {sorted(self._number)}")
        flat: dict[int, Array] = {}
        for name, number in self._number.items():
            if name not in gradients:
                raise ShapeMismatchError(f"no gradient for parameter {name!r}")
            tensor = self._tensors[number]
            array = as_array(name, gradients[name])
            if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
                want = f"{np.dtype(tensor.dtype)} {tensor.shape}"
                raise ShapeMismatchError(f"the gradient of {name!r} is {array.dtype} {array.shape}, not {want}")
            flat[number] = np.ascontiguousarray(array).reshape(-1)
        return flat

    def _may_send(self, norm: float) -> bool:
        """Apply the policy here first: with several servers, one must not apply what another refuses."""
        if np.isfinite(norm) or self._policy is NonFinitePolicy.STOP:
            return True
        if self._policy is NonFinitePolicy.REJECT:
            raise NonFiniteGradientError(f"the gradient of step {self.step + 1} holds NaN or infinity")
        self.statistics.dropped_pushes += 1
        return False

    def _indices(self, plan: ShardPlan, shard: ShardRange, seed: int) -> Indices:
        if self._order is None or self._order[0] != shard.epoch:
            self._order = (shard.epoch, epoch_order(plan.examples, shard.epoch, seed))
        return self._order[1][shard.start : shard.stop]

    def _finish(self, plan: ShardPlan, shard: Shard) -> None:
        self._servers.wait_for_servers()  # a shard is done when its pushes are confirmed, not before
        if shard.reached >= shard.leased.stop:
            self._done.append(shard.leased)
        self._remember(plan, None)
        self._servers.ask_lead(lambda: m.FinishShard(*self._who, shard.leased, shard.reached))

    def _remember(self, plan: ShardPlan, held: ShardRange | None) -> None:
        """What to tell a lead that came back from a snapshot older than our shards."""
        self._servers.join_request = m.structs_replace(
            self._servers.join_request, plan=plan, held=[held] if held else [], done=list(self._done)
        )


def connect(
    model: Mapping[str, object],
    *,
    settings: Settings | None = None,
    observer: bool = False,
    limits: Limits | None = None,
    replica: runtime.Replica | None = None,
    shared_memory: bool = True,
) -> Session:
    """Join the job's parameter servers with a model's named arrays (anything NumPy can view: torch, JAX on the CPU).

    The first worker's values become everybody's. An observer pulls but is waited for by nobody. In a program that has
    no servers the same session runs in this process alone, by `settings`. With servers, `settings` become theirs if
    they were given none, and must agree with theirs otherwise; without `settings`, whatever the servers do is right.
    """
    here = replica or runtime.current()
    arrays = {name: as_array(name, value) for name, value in model.items()}
    tensors = describe(arrays)
    image = SharedImage.create(image_bytes(tensors))
    for name, view in image_views(image.values, tensors).items():
        np.copyto(view, arrays[name])
    addresses = here.peers("ps")
    alone = not addresses
    dial: Callable[[str], Link]
    if alone:
        from gangline.ps.worker.in_process import ADDRESS, dial_in_process

        addresses, dial = (ADDRESS,), dial_in_process(settings or Settings(), image)
    else:
        bare = partial(RemoteLink, job=here.job_id, sender=here.name, credentials=Credentials.of(here))
        dial = partial(bare, image=image if shared_memory else None)
    join = m.Join(
        here.name,
        tensors,
        proposed=time.time_ns() // 1_000_000,
        observer=observer and not alone,
        training=settings.training if settings else None,
    )
    try:
        servers = ServerGroup(addresses, dial, image, join, limits or Limits())
    except BaseException:
        image.close()
        raise
    heartbeat = None if alone else _heartbeat(servers, bare)
    session = Session(tensors, image, servers, heartbeat)
    try:
        servers.begin()
    except BaseException:
        session.abandon()
        raise
    return session


def _heartbeat(servers: ServerGroup, dial: Callable[[str], Link]) -> Heartbeat:
    joined = servers.joined
    renew = m.Renew(servers.join_request.worker, joined.incarnation)
    heartbeat = Heartbeat(dial, joined.map.servers, renew, joined.lease_seconds / 3)
    heartbeat.start()
    return heartbeat


def as_array(name: str, value: object) -> Array:
    """View a parameter of any framework as NumPy's, without a copy where the memory can be shared."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return cast(Array, np.from_dlpack(value)) if hasattr(value, "__dlpack__") else np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # bfloat16, a tensor on a GPU, one that requires gradients: the frameworks do not say which tensor they mean.
        raise ShapeMismatchError(
            f"{name!r} ({type(value).__name__}) cannot be seen as a NumPy array: {error}"
        ) from error


def _norm(flat: Mapping[int, Array]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = sum(float(np.dot(gradient, gradient)) for gradient in flat.values())
    if not np.isfinite(squares) and all(np.isfinite(gradient).all() for gradient in flat.values()):
        squares = sum(float(np.dot(g, g)) for g in (gradient.astype(np.float64) for gradient in flat.values()))
    return float(np.sqrt(squares))


def _wait_unless_stopping(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if runtime.stopping():
            return False
        time.sleep(min(left, FOLLOW_SLICE_SECONDS))
    return True
