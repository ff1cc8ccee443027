"""Values survive the way into messages and back, byte by byte of their JSON."""

import math

import msgspec
import pytest

from gangline.model import Job, JobId, Metric, MetricPage, Node, Phase, ReplicaId, Timestamp
from gangline.testing.builders import make_job, make_node
from gangline.wire import codec, plain
from gangline.wire.rpc.messages import message_from, pb, plain_from
from gangline.wire.rpc.methods import METHODS, find_method, message_of, rest_request


def there_and_back(message: type, value: object) -> object:
    wired = message.FromString(message_from(message, plain(value)).SerializeToString())
    return plain_from(wired)


def test_a_job_is_the_same_afterwards() -> None:
    job = make_job()
    back = msgspec.json.encode(there_and_back(pb.Job, job))
    assert codec(Job).decode(back) == job


def test_its_message_is_typed() -> None:
    message = message_from(pb.Job, plain(make_job()))
    assert message.status.phase == pb.Phase.Value(f"PHASE_{make_job().phase}")
    assert message.metadata.name == make_job().name
    assert message.status.created_at.seconds == int(make_job().created_at)


def test_a_node_is_the_same_afterwards() -> None:
    node = make_node()
    assert codec(Node).decode(msgspec.json.encode(there_and_back(pb.Node, node))) == node


@pytest.mark.parametrize("value", [0.5, math.inf, -math.inf, 3.0])
def test_numbers_that_json_does_not_have_survive(value: float) -> None:
    metric = Metric(
        job_id=JobId("j"), replica=ReplicaId.parse("worker-0"), name="loss", value=value, step=None, at=Timestamp(5.25)
    )
    page = MetricPage(metrics=(metric,))
    assert codec(MetricPage).decode(msgspec.json.encode(there_and_back(pb.MetricPage, page))) == page


def test_whole_numbers_of_a_file_stay_whole() -> None:
    document = {"a": 4, "b": 4.5, "c": [1, None, True, "x"], "d": {}, "e": -(2**53) + 1}
    message = message_from(METHODS["CreateJob"].request, {"tenant": "t", "body": document})
    found = plain_from(message)["body"]
    assert found == document
    assert isinstance(found["a"], int)


def test_a_choice_that_is_not_known_is_unspecified() -> None:
    assert message_from(pb.LogLine, {"stream": "stdsomething"}).stream == 0


def test_a_request_becomes_that_of_rest_and_back() -> None:
    method = METHODS["ListJobs"]
    query = (("phase", "QUEUED"), ("phase", "FAILED"), ("created_since", "2030-01-31T12:00:00Z"), ("limit", "5"))
    message = message_of(method, ("tenants", "a b", "jobs"), query, None)
    request = rest_request(method, message)
    assert request.path == "/api/v1/tenants/a%20b/jobs"
    assert sorted(request.query) == sorted(query)
    assert Phase.QUEUED in message.phase


def test_watching_is_a_method_of_its_own() -> None:
    path = ("tenants", "t", "jobs", "j")
    watching, getting = find_method("GET", path, (("watch", "true"),)), find_method("GET", path, ())
    assert watching is METHODS["WatchJob"]
    assert getting is METHODS["GetJob"]
    assert rest_request(METHODS["WatchJob"], message_of(METHODS["WatchJob"], path, (), None)).query == (
        ("watch", "true"),
    )


def test_the_method_that_says_more_of_a_path_is_asked() -> None:
    assert find_method("POST", ("tenants", "t", "workspaces", "w", "open"), ()) is METHODS["OpenWorkspace"]
    assert find_method("POST", ("tenants", "t", "workspaces", "w", "stop"), ()) is METHODS["DoWorkspaceVerb"]


def test_names_cannot_leave_their_place_in_the_path() -> None:
    message = METHODS["GetJob"].request(tenant="t", job="../../../queues?x=1#")
    assert rest_request(METHODS["GetJob"], message).path == "/api/v1/tenants/t/jobs/..%2F..%2F..%2Fqueues%3Fx%3D1%23"
