"""The router's process, from its first table to its last."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from gangline.compose import router_process
from gangline.compose.router_process import RouterProcess
from gangline.model.routing import RevisionRoute, RoutingTable, ServiceRoute


async def test_nothing_but_its_table_port_and_log_is_left_when_nothing_is_routed(tmp_path: Path) -> None:
    router = RouterProcess(tmp_path / "router", tmp_path / "c")
    try:
        route = ServiceRoute(name="digits", revisions=(RevisionRoute(name="1", weight=100),))
        await router.tell(RoutingTable(version=1, services=(route,)))
        assert await router.statistics(0) is not None
        assert (tmp_path / "c").is_socket()
    finally:
        await router.tell(RoutingTable(version=2))
        await router.close()
    assert not (tmp_path / "c").exists()
    assert {each.name for each in (tmp_path / "router").iterdir()} == {"log", "port", "table.json"}


async def test_router_that_hangs_is_replaced_and_nobody_waits_long_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_process, "_ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(router_process, "_START_SECONDS", 3.0)
    router = RouterProcess(tmp_path / "router", tmp_path / "c")
    route = ServiceRoute(name="digits", revisions=(RevisionRoute(name="1", weight=100),))
    try:
        async with asyncio.timeout(120):
            await router.tell(RoutingTable(version=1, services=(route,)))
            while await router.statistics(0) is None:
                pass
            hung = int((tmp_path / "router" / "process").read_text().partition(" ")[0])
            os.kill(hung, signal.SIGSTOP)
            await router.tell(RoutingTable(version=2, services=(route,)))
            while (found := await router.statistics(0)) is None or found.version != 2:
                pass
        assert int((tmp_path / "router" / "process").read_text().partition(" ")[0]) != hung
    finally:
        await router.tell(RoutingTable(version=3))
        await router.close()
