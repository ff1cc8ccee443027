"""Connections that never ask for anything, or never read the answer, are ended."""

import asyncio

from gangline.compose.team.connections import SILENT_SECONDS, UNREAD_SECONDS, SilentConnections
from gangline.testing.builders import FakeClock


class Transport(asyncio.WriteTransport):
    waiting, aborted = 0, False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True


class Connection:
    ended = False

    def __init__(self) -> None:
        self.transport = Transport()

    def force_close(self) -> None:
        self.ended = True


def test_a_connection_that_never_asks_is_ended_and_no_other() -> None:
    clock = FakeClock()
    silent, first, second = SilentConnections(clock), Connection(), Connection()
    silent.end_silent([first])
    clock.advance(SILENT_SECONDS - 1)
    silent.end_silent([first, second])
    assert not first.ended
    clock.advance(1)
    silent.end_silent([first, second])
    assert first.ended
    assert not second.ended


def test_a_connection_that_has_asked_is_left_alone() -> None:
    clock = FakeClock()
    silent, asking = SilentConnections(clock), Connection()
    silent.end_silent([asking])
    silent.note(asking)
    clock.advance(SILENT_SECONDS * 2)
    silent.end_silent([asking])
    assert not asking.ended


def test_a_connection_whose_client_takes_nothing_is_ended_and_one_that_takes_little_is_not() -> None:
    clock = FakeClock()
    silent, stuck, slow, idle = SilentConnections(clock), Connection(), Connection(), Connection()
    stuck.transport.waiting = slow.transport.waiting = 1000
    silent.end_unread([stuck, slow, idle])
    clock.advance(UNREAD_SECONDS - 1)
    slow.transport.waiting = 999
    silent.end_unread([stuck, slow, idle])
    assert not stuck.transport.aborted
    clock.advance(1)
    silent.end_unread([stuck, slow, idle])
    assert stuck.transport.aborted
    clock.advance(UNREAD_SECONDS - 2)
    silent.end_unread([slow, idle])
    assert not slow.transport.aborted
    assert not idle.transport.aborted


def test_a_client_that_has_taken_everything_begins_anew() -> None:
    clock = FakeClock()
    silent, client = SilentConnections(clock), Connection()
    for waiting in (1000, 0, 1000):
        client.transport.waiting = waiting
        silent.end_unread([client])
        clock.advance(UNREAD_SECONDS - 1)
    assert not client.transport.aborted
