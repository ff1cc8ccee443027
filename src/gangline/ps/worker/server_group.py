"""All servers of a job as one worker sees them: the map, the links, and what happens when a server goes away.

A session calls it. While a server is away its blocks are trained locally and the pushes are kept; when it is back,
it is told what it lacks (see peer.catch_up). Only when the limits are used up does the worker wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from gangline import runtime
from gangline.ps.blocks import BlockMap
from gangline.ps.errors import (
    AuthenticationError,
    MissingBlocksError,
    NoMapError,
    NotLeadError,
    OldMapError,
    ServerLostError,
    UnknownWorkerError,
)
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.link import Link, ask, ask_map
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.worker.joining import join_lead
from gangline.ps.worker.local_update import LocalUpdate
from gangline.ps.worker.peer import Peer, PushOutcome
from gangline.ps.worker.push_log import LoggedPush, PushLog

RETRY_SECONDS = 0.1
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a worker goes on without a server, what it keeps meanwhile, and how long it waits after that."""

    outage_steps: int = 500
    outage_bytes: int = 1 << 30
    retained_bytes: int = 64 << 20
    server_timeout: float = 120.0


class ServerGroup:
    """The servers, the lead first."""

    def __init__(
        self,
        addresses: Sequence[str],
        dial: Callable[[str], Link],
        image: SharedImage,
        join: m.Join,
        limits: Limits,
    ) -> None:
        self._dial = dial
        self._image = image
        self._limits = limits
        self.join_request = join
        self.log = PushLog(limits.retained_bytes)
        self.clock = 0
        self.peers: list[Peer] = []
        self.outages = 0
        self._at_gate = False
        self._must_look = self._must_repair = False
        lead_link, self.joined = self._first_join(addresses)
        self._build_peers(lead_link)
        self._local = LocalUpdate(self.joined.training, image)

    def begin(self) -> None:
        """Agree on the first values: upload them if it is this worker's turn, then take what the servers hold."""
        began = time.monotonic()
        while True:
            try:
                self._begin_once()
            except (OSError, NotLeadError) as error:
                self.close()
                if time.monotonic() - began > self._patience():
                    raise ServerLostError(f"the servers did not stay up: {error}") from error
                time.sleep(RETRY_SECONDS)
            else:
                return

    def push(self, push: LoggedPush, *, pull: bool) -> PushOutcome:
        """Send one step's gradients to all servers."""
        self._revive()
        self.log.append(push)
        outcomes = self._exchange(push, pull=pull)
        self._repair()
        self._local.apply([peer for peer in self.peers if peer.link is None], push)
        self._settle()
        staleness = max((outcome.staleness for outcome in outcomes), default=0)
        return PushOutcome(staleness, all(outcome.applied for outcome in outcomes))

    def pull(self) -> None:
        """Take the values of all servers that are up."""
        self._revive()
        asked = [peer for peer in self.peers if peer.link and self._try(peer, peer.send_pull, self._passed)]
        for peer in asked:
            self._try(peer, peer.receive_pull)
        self._repair()

    def gate(self, clock: int) -> None:
        """Wait until the consistency lets this worker begin its next step; not while the lead is away."""
        self._at_gate = True
        try:
            self._wait_at_gate(m.Advance(self.join_request.worker, self.joined.incarnation, clock))
        finally:
            self._at_gate = False

    def ask_lead(self, build: Callable[[], m.Request]) -> m.Reply:
        """A question that only the lead can answer; waits for it when it is away."""
        while True:
            if self.peers[0].link is None:
                self.wait_for_servers()
            lead = self.peers[0]
            try:
                return ask(self._lead_link(), build())
            except OSError:
                self._lose(lead)
            except NotLeadError:
                lead.close()
            except UnknownWorkerError:
                self.rejoin(self._lead_link())

    def wait_for_servers(self) -> None:
        """Wait until every server is up and has all pushes."""
        began = time.monotonic()
        while lost := [peer.address for peer in self.peers if peer.link is None]:
            self._revive()
            if all(peer.link for peer in self.peers):
                return
            waited = time.monotonic() - began
            if waited > self._patience():
                raise ServerLostError(f"no answer for {waited:.1f} s from {', '.join(lost)}")
            time.sleep(RETRY_SECONDS)

    def rejoin(self, lead: Link) -> None:
        """Take the lease again, as the same process."""
        reply = ask(lead, self._rejoin_request())
        assert isinstance(reply, m.Joined)
        self.joined = reply
        self.clock = max(self.clock, reply.clock)

    def close(self) -> None:
        """Let go of all links."""
        for peer in self.peers:
            peer.close()

    def _wait_at_gate(self, request: m.Advance) -> None:
        while self._has_lead():
            lead = self.peers[0]
            try:
                ask(self._lead_link(), request)
            except OSError:
                self._lose(lead)
            except NotLeadError:
                lead.close()
                self.wait_for_servers()
            except UnknownWorkerError:
                self.rejoin(self._lead_link())
            else:
                return

    def _has_lead(self) -> bool:
        self._repair()
        return self.peers[0].link is not None

    def _exchange(self, push: LoggedPush, *, pull: bool) -> list[PushOutcome]:
        """Push to all servers that are up, in turns, so that they work at the same time."""
        busy = [peer for peer in self.peers if peer.link and peer.begin_push(push, pull=pull)]
        involved = list(busy)
        while busy:
            busy = [peer for peer in busy if self._try(peer, peer.push_some)]
        return [peer.outcome() for peer in involved if peer.link]

    @property
    def _passed(self) -> int:
        """The last step whose gate is behind us: everybody has pushed it, so its round may be closed.

        At a gate it is the step before. A worker that comes back with its clock says that it has pushed that far, and
        while the servers change that is true of the step before only.
        """
        return self.clock - self._at_gate

    def _rejoin_request(self) -> m.Join:
        return m.structs_replace(
            self.join_request,
            incarnation=self.joined.incarnation,
            clock=self._passed,
            map=self.joined.map,
            training=self.joined.training,
        )

    def _patience(self) -> float:
        """How long to wait for a server; once told to stop, no longer than the grace period lets us leave in order."""
        timeout = self._limits.server_timeout
        return min(timeout, runtime.current().grace_seconds / 3) if runtime.stopping() else timeout

    def _first_join(self, addresses: Sequence[str]) -> tuple[Link, m.Joined]:
        deadline = time.monotonic() + self._limits.server_timeout
        while True:
            try:
                return join_lead(addresses, self.join_request, self._dial)
            except AuthenticationError:
                raise  # nobody of this job ever answered here: rather a wrong secret than a server that is away
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ServerLostError(f"no parameter server at {addresses[0]}: {error}") from error
                time.sleep(RETRY_SECONDS)

    def _build_peers(self, lead_link: Link | None) -> None:
        block_map = self.joined.map
        worker = self.join_request.worker
        self.peers = [Peer(n, block_map, self._image, worker) for n in range(len(block_map.servers))]
        for peer in self.peers:
            peer.incarnation = self.joined.incarnation
        self.peers[0].link = lead_link
        self.clock = max(self.clock, self.joined.clock)

    def _begin_once(self) -> None:
        if self.peers[0].link is None:
            link, self.joined = join_lead(self.joined.map.servers, self._rejoin_request(), self._dial)
            self._build_peers(link)
        lead, turn = self._lead_link(), m.Turn(ready=self.joined.ready)
        if not turn.ready and not self.joined.upload:
            reply = ask(lead, m.AwaitReady(self.join_request.worker))
            assert isinstance(reply, m.Turn)
            turn = reply
        for peer in self.peers[1:]:
            peer.link = peer.link or self._dial(peer.address)
        if not turn.ready:
            for peer in self.peers:
                peer.initialise(self.joined.training)
            ask(lead, m.Ready(self.join_request.worker))
        self.pull()
        if not all(peer.link for peer in self.peers):
            raise ConnectionError("a server was lost before its values came")

    def _lead_link(self) -> Link:
        link = self.peers[0].link
        if link is None:
            raise ConnectionError("the lead is away")
        return link

    def _try(self, peer: Peer, action: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Talk to a server; None when it is away or the map has moved on. Other refusals go to the caller."""
        try:
            return action(*args, **options)
        except OSError:
            self._lose(peer)
        except (OldMapError, MissingBlocksError):
            # More replies may be under way on this link: begin again on a new one, and settle there what is missing.
            _hang_up([peer])
            self._must_repair = True
        except BaseException:
            # Replies may be under way on the other links too: whoever goes on after this begins again on new ones.
            _hang_up(self.peers)
            self.log.discard_last()
            raise
        return None

    def _repair(self) -> None:
        """Before going on: a server that has left, or that holds other blocks than we thought, is not away."""
        if self._must_look:
            self._must_look = False
            if newer := self._newer_map_known():
                self._go_over_to(newer)
                self._must_repair = True
        if self._must_repair:
            self._must_repair = False
            self.wait_for_servers()

    def _lose(self, peer: Peer) -> None:
        peer.close()
        self.outages += 1
        self._must_look = True
        peer.tried_at = time.monotonic()

    def _revive(self) -> None:
        """Try servers that are away, each at most once per interval."""
        now = time.monotonic()
        for peer in list(self.peers):
            if peer.link is None and now - peer.tried_at >= RETRY_SECONDS:
                peer.tried_at = now
                newer = self._revive_one(peer)
                if newer:
                    self._go_over_to(newer)
                    return

    def _revive_one(self, peer: Peer) -> BlockMap | None:
        """Try one server that is away. A newer map than ours is the answer to give up for: the servers are others."""
        lead = self.peers[0]
        try:
            peer.link = self._dial(peer.address)
            if newer := self._newer_map(lead if lead.link else peer):
                return newer
            if peer is lead:
                self.rejoin(peer.link)
            if lead.link:
                # The server may have missed a change of the map, or wait for word of one that came to nothing.
                ask(peer.link, m.Adopt(self.joined.map))
            peer.catch_up(self.log, self._passed, self.joined.training)
            if peer is lead and not self.joined.ready:
                ask(peer.link, m.Ready(self.join_request.worker))  # it lost everything, and has it again
        except OSError:
            peer.close()
            return self._newer_map_known()
        except (OldMapError, NotLeadError):
            peer.close()
            self._must_repair = True
            return self._newer_map_known()
        return None

    def _newer_map_known(self) -> BlockMap | None:
        """A newer map than ours, if a server that is up knows one: those that are away may have left for good."""
        for peer in self.peers:
            with suppress(OSError):
                if newer := self._newer_map(peer):
                    return newer
        return None

    def _newer_map(self, peer: Peer) -> BlockMap | None:
        """A newer map than ours, if this server knows one."""
        if peer.link is None:
            return None
        try:
            newest = ask_map(peer.link)
        except NoMapError:
            return None
        except OSError:
            self._lose(peer)
            raise
        return newest if newest.version > peer.map_version else None

    def _go_over_to(self, newer: BlockMap) -> None:
        self.joined = m.structs_replace(self.joined, map=newer)
        self.close()
        self._build_peers(None)
        self._revive()

    def _settle(self) -> None:
        confirmed = min(peer.confirmed for peer in self.peers)
        self.log.forget(min(peer.durable for peer in self.peers))
        self._make_room(confirmed)
        self.log.keep_last()
        steps, nbytes = self.log.unconfirmed(confirmed)
        if steps > self._limits.outage_steps or nbytes > self._limits.outage_bytes:
            self.wait_for_servers()

    def _make_room(self, confirmed: int) -> None:
        """Wait for snapshots when more pushes are confirmed than can be kept until then.

        While a server is away nothing is given up: the limits of an outage hold, and it will be told what it lacks.
        """
        while self._all_up() and self.log.overfull(confirmed):
            oldest = self.log.first_sequence
            if self._limits.retained_bytes:
                self._persist(oldest)
            if self._all_up() and self.log.first_sequence == oldest:
                self.log.drop(confirmed)  # nothing else helps: nothing is to be kept, or a disk does not take it

    def _persist(self, sequence: int) -> None:
        behind = [peer for peer in self.peers if peer.durable < sequence]
        asked = [peer for peer in behind if self._try(peer, peer.send_persist, sequence)]
        for peer in asked:
            self._try(peer, peer.receive_persisted)
        self.log.forget(min(peer.durable for peer in self.peers))

    def _all_up(self) -> bool:
        return all(peer.link for peer in self.peers)


def _hang_up(peers: Sequence[Peer]) -> None:
    """Close links to servers that are not away: they are dialled again at once."""
    for peer in peers:
        peer.close()
        peer.tried_at = 0.0
