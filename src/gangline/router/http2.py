"""Connections of HTTP/2 as the router uses them: many streams on one, each read and written at the pace of both ends.

The state of the protocol is kept by the package h2 (extra ``serve``). One thing it does not know is a connection that
takes no more streams but ends those it has, which is how gRPC ends connections: frames that announce it
(GOAWAY) are therefore read and written here.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from gangline.router.messages import MAX_HEAD_BYTES

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
Headers = Sequence[tuple[bytes, bytes]]

_STREAM_WINDOW = 256 << 10
"""How much of one stream may wait here to be passed on."""
_CONNECTION_WINDOW = 16 << 20
_MAX_STREAMS = 1000
_WRITE_AHEAD = 256 << 10
_FRAME_HEAD, _GOAWAY = 9, 7
_LAST_STREAM = (1 << 31) - 1
_IDLE_SECONDS = 300.0
_RESETS = 200
"""A client that takes back this many more calls than it lets end only wants to keep us busy."""


@dataclass(frozen=True, slots=True)
class Head:
    """The headers of a request or an answer, or the trailers of either."""

    headers: Headers


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a body; ``size`` is what it counts in the window, which must be given back."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more will come."""


class StreamLostError(Exception):
    """A stream was reset or its connection lost. ``unseen``: the other side has not begun with it."""

    def __init__(self, *, unseen: bool = False) -> None:
        super().__init__("the stream is lost")
        self.unseen = unseen


class Stream:
    """One call on one connection: taken from by one coroutine, sent to by another."""

    __slots__ = ("_items", "_peer", "_room", "_taker", "lost", "number", "task")

    def __init__(self, peer: "Peer", number: int) -> None:
        self._peer = peer
        self._items: deque[Head | Piece | End] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.number = number
        self.lost: StreamLostError | None = None
        self.task: asyncio.Task[None] | None = None
        """What serves it; cancelled when the other side takes it back."""

    def put(self, item: Head | Piece | End) -> None:
        """Keep what came."""
        self._items.append(item)
        _wake(self._taker)

    def lose(self, problem: StreamLostError) -> None:
        """It is over: whoever waits is told, after what has come already."""
        self.lost = self.lost or problem
        _wake(self._taker)
        self.look_for_room()
        if self.task is not None:
            self.task.cancel()

    def look_for_room(self) -> None:
        """The window may be open."""
        _wake(self._room)

    async def take(self, seconds: float) -> Head | Piece | End:
        """Wait for the next thing. Raises StreamLostError, TimeoutError."""
        while not self._items:
            if self.lost is not None:
                raise self.lost
            self._taker = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(seconds):
                await self._taker
        return self._items.popleft()

    def taken(self, piece: Piece) -> None:
        """The other side may send as much again."""
        if self.lost is None and piece.size:
            self._peer.acknowledge(self.number, piece.size)

    def send_head(self, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers. Raises StreamLostError."""
        if self.lost is not None:
            raise self.lost
        self._peer.send_headers(self.number, headers, end=end)

    async def send(self, data: bytes, seconds: float) -> None:
        """Send a part of a body as the window opens. Raises StreamLostError, TimeoutError."""
        at = 0
        while at < len(data):
            if self.lost is not None:
                raise self.lost
            room = self._peer.room(self.number)
            if room > 0:
                self._peer.send_data(self.number, data[at : at + room])
                at += room
                continue
            self._room = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(seconds):
                await self._room

    def send_end(self) -> None:
        """Nothing more will be sent. Raises StreamLostError."""
        if self.lost is not None:
            raise self.lost
        self._peer.send_end(self.number)

    def close(self, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Take it back if it has not ended."""
        self._peer.forget(self.number, code)


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class Peer(asyncio.Protocol):
    """One connection: to a client if ``asked`` is given, which is called for every stream; otherwise to a backend."""

    def __init__(self, asked: Callable[[Stream, Headers], asyncio.Task[None]] | None = None) -> None:
        self._asked = asked
        config = H2Configuration(client_side=asked is None, header_encoding=None)
        self._http = H2Connection(config)
        limits = {
            SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
            SettingCodes.ENABLE_PUSH: 0,
        }
        self._http.local_settings = Settings(client=asked is None, initial_values=limits)
        self._raw = bytearray()
        self._preface = 0 if asked is None else len(PREFACE)
        self._blocked = False
        self._resets = 0
        self._idle: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._tasks: set[asyncio.Task[None]] = set()
        self.streams: dict[int, Stream] = {}
        self.closing = False
        """It takes no new streams."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say what we can take."""
        self._transport = transport  # type: ignore[assignment]  # connections of streams have nothing else
        self._transport.set_write_buffer_limits(high=_WRITE_AHEAD)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()
        self._rest()

    def data_received(self, data: bytes) -> None:
        """Follow the protocol; what does not ends the connection."""
        try:
            for event in self._http.receive_data(self._without_goodbyes(data)):
                self._follow(event)
        except ProtocolError:
            self._flush()  # it says why
            self._transport.close()
            return
        self._flush()

    def _without_goodbyes(self, data: bytes) -> bytes:
        """Return all whole frames but those that announce the end of the connection, which are followed here."""
        raw, out = self._raw, bytearray()
        raw += data
        if self._preface:
            out += raw[: self._preface]
            self._preface -= len(out)
            del raw[: len(out)]
        at = 0
        while len(raw) - at >= _FRAME_HEAD:
            length = int.from_bytes(raw[at : at + 3])
            end = at + _FRAME_HEAD + length
            if length > self._http.max_inbound_frame_size:
                raise ProtocolError("a frame is too large")
            if end > len(raw):
                break
            if raw[at + 3] == _GOAWAY and length >= 8:
                self._goodbye(int.from_bytes(raw[at + _FRAME_HEAD : at + _FRAME_HEAD + 4]) & _LAST_STREAM)
            else:
                out += raw[at:end]
            at = end
        del raw[:at]
        return bytes(out)

    def _goodbye(self, last: int) -> None:
        self.closing = True
        if self._asked is None:
            for number in [number for number in self.streams if number > last]:
                self.streams.pop(number).lose(StreamLostError(unseen=True))
        self._close_if_done()

    def _follow(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived(stream_id=number, headers=headers) if self._asked is not None:
                self.streams[number] = stream = Stream(self, number)
                stream.task = self._asked(stream, headers)
                self._tasks.add(stream.task)
                stream.task.add_done_callback(self._tasks.discard)
            case (
                events.ResponseReceived(stream_id=number, headers=headers)
                | events.TrailersReceived(stream_id=number, headers=headers)
            ):
                self._put(number, Head(headers))
            case events.DataReceived(stream_id=number, data=data, flow_controlled_length=size):
                if number in self.streams:
                    self._put(number, Piece(data, size))
                elif size:
                    self._http.acknowledge_received_data(size, number)
            case events.StreamEnded(stream_id=number):
                self._put(number, End())
            case events.StreamReset(stream_id=number, error_code=code):
                self._reset(number, unseen=code == ErrorCodes.REFUSED_STREAM)
            case events.WindowUpdated(stream_id=number) if number:
                if number in self.streams:
                    self.streams[number].look_for_room()
            case events.WindowUpdated() | events.RemoteSettingsChanged():
                self._look_for_room()

    def _put(self, number: int, item: Head | Piece | End) -> None:
        if number in self.streams:
            self.streams[number].put(item)

    def _reset(self, number: int, *, unseen: bool) -> None:
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.lose(StreamLostError(unseen=unseen))
            self._resets += 1
            if self._asked is not None and self._resets > _RESETS:
                self._http.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
                self._flush()
                self._transport.close()
        self._rest()

    def _look_for_room(self) -> None:
        for stream in list(self.streams.values()):
            stream.look_for_room()

    def pause_writing(self) -> None:
        """Remember that the other side does not read fast enough."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Go on."""
        self._blocked = False
        self._look_for_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """All streams are lost."""
        self.closing = True
        if self._idle is not None:
            self._idle.cancel()
        for stream in list(self.streams.values()):
            stream.lose(StreamLostError())
        self.streams.clear()
        _wake(self.done)

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    # What streams ask for.

    def open(self, headers: Headers) -> Stream:
        """Begin a call. Raises StreamLostError if the connection takes no more."""
        if self.closing or self._transport.is_closing():
            raise StreamLostError(unseen=True)
        try:
            number = self._http.get_next_available_stream_id()
            self._http.send_headers(number, headers)
        except ProtocolError as error:  # too many at once, or no number left
            raise StreamLostError(unseen=True) from error
        self.streams[number] = stream = Stream(self, number)
        self._flush()
        return stream

    def send_headers(self, number: int, headers: Headers, *, end: bool) -> None:
        """Send headers or trailers."""
        self._guarded(lambda: self._http.send_headers(number, headers, end_stream=end))

    def send_data(self, number: int, data: bytes) -> None:
        """Send what room allows."""
        self._guarded(lambda: self._http.send_data(number, data))

    def send_end(self, number: int) -> None:
        """End a stream on this side."""
        self._guarded(lambda: self._http.end_stream(number))

    def acknowledge(self, number: int, size: int) -> None:
        """Open the window again."""
        self._guarded(lambda: self._http.acknowledge_received_data(size, number))

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ProtocolError as error:
            raise StreamLostError from error
        self._flush()

    def room(self, number: int) -> int:
        """How much may be sent now."""
        if self._blocked:
            return 0
        try:
            return min(self._http.local_flow_control_window(number), self._http.max_outbound_frame_size)
        except ProtocolError as error:
            raise StreamLostError from error

    def forget(self, number: int, code: ErrorCodes) -> None:
        """End a stream, with a reset if it has not ended by itself."""
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        self._resets = max(0, self._resets - 1)
        stream.lost = stream.lost or StreamLostError()
        with suppress(ProtocolError):  # it has ended
            self._http.reset_stream(number, code)
        self._flush()
        self._rest()

    # Its end.

    def say_goodbye(self) -> None:
        """Take no more streams, and end with the last one."""
        if not self.closing:
            self.closing = True
            last = self._http.highest_inbound_stream_id.to_bytes(4) if self._asked else bytes(4)
            if not self._transport.is_closing():
                self._transport.write(b"\x00\x00\x08\x07" + bytes(5) + last + bytes(4))
        self._close_if_done()

    def _rest(self) -> None:
        self._close_if_done()
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._idle = None if self.streams else loop.call_later(_IDLE_SECONDS, self.say_goodbye)

    def _close_if_done(self) -> None:
        if self.closing and not self.streams:
            self._transport.close()

    async def end(self) -> None:
        """End at once, with all that serves its streams."""
        self._transport.abort()
        self.connection_lost(None)
        if self._tasks:
            await asyncio.wait(self._tasks)
