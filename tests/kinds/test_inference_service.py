"""An InferenceService with a transformer is two services of one record, which come and go with it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangline.controller.services import ServiceObserver
from gangline.dialects import document
from gangline.kinds.inference_service import INFERENCE_SERVICE, observed, parts_of
from gangline.kinds.kind import NewJob, Owned, Plan
from gangline.lifecycle import new_job
from gangline.model import Job, Timestamp
from gangline.model.kinds.inference_service import FIRST_OF_TRANSFORMER, InferenceService, InferenceServiceStatus
from gangline.model.record import RecordId
from gangline.model.routing import BackendState, RouterStatistics, RoutingTable
from gangline.serving import ReplicaSight, ServiceSight, number_of
from gangline.storage.codec import codec_of
from gangline.testing.builders import FakeClock
from tests.controller.scripted_engine import ScriptedEngine

MODEL = {"model": {"modelFormat": {"name": "onnx"}, "storageUri": "s3://models/iris"}}
TRANSFORMER = {"containers": [{"name": "kserve-container", "image": "acme/change:1", "args": ["--loud"]}]}
ROUTER = "http://router:80"


def record(**spec: Any) -> InferenceService:
    body = {"metadata": {"name": "iris"}, "spec": {"predictor": MODEL, **spec}}
    read = INFERENCE_SERVICE.format.read(document.plain(body), {})
    return InferenceService(id=RecordId("r"), spec=read, status=InferenceServiceStatus(), created_at=Timestamp(0.0))


def owned(jobs: Mapping[int, Job], *names: str, router: str = ROUTER) -> Owned:
    replicas = {number: ReplicaSight(ready=True, address=f"10.0.0.1:{number}") for number in jobs}
    sights = {f"iris-{name}": ServiceSight(replicas=replicas, router=router) for name in names}
    return Owned(jobs=tuple(jobs.values()), sight=sights)


def planned(service: InferenceService, found: Owned) -> Plan[InferenceServiceStatus]:
    assert INFERENCE_SERVICE.plan is not None
    return INFERENCE_SERVICE.plan(service, found, Timestamp(5.0))


def made(new: NewJob) -> Job:
    return new_job(new.id, new.spec, Timestamp(1.0))


def both_ready() -> tuple[InferenceService, dict[int, Job]]:
    """Play what the driver does until both services have their replica."""
    service, jobs = record(transformer=TRANSFORMER), dict[int, Job]()
    for names in (("predictor",), ("predictor", "transformer"), ("predictor", "transformer")):
        wanted = planned(service, owned(jobs, *names))
        jobs |= {number_of(each): each for each in map(made, wanted.create)}
        service = replace(service, status=wanted.status)
    return service, jobs


def test_transformer_begins_once_its_predictor_has_an_address() -> None:
    service = record(transformer=TRANSFORMER)
    first = planned(service, owned({}, "predictor", router=""))
    assert [each.spec.name for each in first.create] == ["iris-predictor-1-1"]
    assert first.again_at is not None
    service = replace(service, status=first.status)
    assert not observed(service)
    service, jobs = both_ready()
    assert [each.spec.name for each in jobs.values()] == ["iris-predictor-1-1", "iris-transformer-1-1000001"]
    template = json.loads(jobs[FIRST_OF_TRANSFORMER + 1].spec.roles[0].pod_template_json or "")
    wanted = ["--loud", "--model_name", "iris", "--predictor_host", "router:80/services/iris-predictor"]
    assert template["spec"]["containers"][0]["args"] == [*wanted, "--http_port", "$(PORT)"]
    assert observed(service)
    assert (service.status.ready, service.state) == (1, "ready")
    assert [each.status.address for each in parts_of(service)] == [
        f"{ROUTER}/services/iris-predictor",
        f"{ROUTER}/services/iris-transformer",
    ]


def test_each_of_both_is_rolled_out_by_itself() -> None:
    service, jobs = both_ready()
    louder = {"containers": [{**TRANSFORMER["containers"][0], "args": ["--louder"]}]}
    changed = replace(record(transformer=louder), status=service.status)
    assert not observed(changed)
    wanted = planned(changed, owned(jobs, "predictor", "transformer"))
    assert [each.spec.name for each in wanted.create] == ["iris-transformer-2-1000002"]
    assert (wanted.status.last_number, wanted.status.rollout) == (1, None)


def test_router_that_answers_elsewhere_rolls_the_transformer_out_anew() -> None:
    service, jobs = both_ready()
    wanted = planned(service, owned(jobs, "predictor", "transformer", router="http://router:81"))
    assert [each.spec.name for each in wanted.create] == ["iris-transformer-2-1000002"]
    assert "router:81/services/iris-predictor" in (wanted.create[0].spec.roles[0].pod_template_json or "")


def test_transformer_taken_from_the_file_answers_what_it_has_and_ends() -> None:
    service, jobs = both_ready()
    alone = replace(record(), status=service.status)
    drains = planned(alone, owned(jobs, "predictor", "transformer"))
    assert (drains.cancel, drains.status.transformer) == ((), service.status.transformer)
    ends = planned(alone, owned(jobs, "predictor"))
    assert ends.cancel == (jobs[FIRST_OF_TRANSFORMER + 1].id,)
    alone = replace(alone, status=ends.status)
    assert observed(alone)
    assert planned(alone, owned(jobs, "predictor")).cancel == ends.cancel  # repeated: it may have been lost
    again = replace(record(transformer=TRANSFORMER), status=ends.status)
    wanted = planned(again, owned({1: jobs[1]}, "predictor", "transformer"))
    assert [each.spec.name for each in wanted.create] == ["iris-transformer-2-1000002"]


def test_record_is_kept_with_its_transformer() -> None:
    service, _ = both_ready()
    codec = codec_of(INFERENCE_SERVICE)
    assert codec.decode(codec.encode(service)) == service


class _Router:
    """Remembers what it was told, and has no requests under way."""

    address = ROUTER

    def __init__(self) -> None:
        self.table = RoutingTable(version=0, services=())
        self.in_force = 0

    async def tell(self, table: RoutingTable) -> None:
        self.table = table

    async def known(self) -> RoutingTable:
        return self.table

    async def statistics(self, wait_seconds: float) -> RouterStatistics | None:
        return RouterStatistics(version=self.in_force, revisions=())

    def open(self) -> list[str]:
        return [
            route.name
            for route in self.table.services
            if any(each.state is BackendState.READY for revision in route.revisions for each in revision.backends)
        ]


async def test_transformer_answers_its_last_requests_before_its_predictor_ends() -> None:
    service, jobs = both_ready()
    router = _Router()
    observer = ServiceObserver(engine=ScriptedEngine(), router=router, clock=FakeClock(), wake=lambda _: None)
    await observer.show(service, owned(jobs, "predictor", "transformer"))
    assert router.open() == ["iris-predictor", "iris-transformer"]
    assert [each.hosts for each in router.table.services] == [(), ("iris.default.localhost",)]
    assert not await observer.forget(service)
    assert router.open() == ["iris-predictor"]
    for left in (["iris-predictor"], []):
        router.in_force = router.table.version
        await observer._read_statistics()
        gone = await observer.forget(service)
        assert [each.name for each in router.table.services] == left
    assert gone
