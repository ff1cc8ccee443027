"""The router's process, from its first table to its last."""

from pathlib import Path

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
