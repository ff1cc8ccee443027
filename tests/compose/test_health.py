"""The page a monitoring system reads."""

from aiohttp.test_utils import TestClient, TestServer

from gangline.compose.health import Meter, make_health_app, meter_to_text
from gangline.compose.metering import MeteredController
from gangline.engines.interface import NodesChanged
from gangline.model import Phase
from gangline.scheduling import DEFAULT_POLICIES
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import FakeClock
from tests.operations.fakes import QuietEngine


def test_every_number_has_its_type_and_its_labels() -> None:
    meter = Meter(steps=2, step_seconds=0.25, jobs=lambda: {Phase.QUEUED: 3})
    meter.events["ReplicaStarted"] += 1
    lines = meter_to_text(meter, leads=True).splitlines()
    assert "gangline_leader 1" in lines
    assert 'gangline_jobs{phase="QUEUED"} 3' in lines
    assert 'gangline_events_total{kind="ReplicaStarted"} 1' in lines
    assert "gangline_step_seconds_sum 0.25" in lines
    assert "gangline_step_seconds_count 2" in lines
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    values = {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")}
    assert {name.removesuffix("_sum").removesuffix("_count") for name in values} <= named


async def test_a_controller_counts_its_steps_and_its_news() -> None:
    meter = Meter()
    controller = MeteredController(
        meter, store=MemoryStore(), engine=QuietEngine(), clock=FakeClock(), policies=DEFAULT_POLICIES
    )
    controller.hear(NodesChanged())
    await controller.settle()
    assert (meter.steps, meter.events) == (1, {"NodesChanged": 1})


async def test_it_is_ready_only_while_the_api_server_answers() -> None:
    answers = [True]
    app = make_health_app(meter=Meter(), leads=lambda: False, in_contact=lambda: answers[0])
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/readyz")).status == 200
        answers[0] = False
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        assert "gangline_leader 0" in await (await client.get("/metrics")).text()
