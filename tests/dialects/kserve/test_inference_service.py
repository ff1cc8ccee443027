"""InferenceServices as services, and what is refused of them."""

import json
from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.kserve import read_inference_service, service_of, transformer_of
from gangline.dialects.kserve.inference_service import notes_of
from gangline.dialects.kserve.status import inference_service_to_object, inference_service_to_status
from gangline.errors import InvalidInputError
from gangline.model import Resources, Timestamp
from gangline.model.kinds.inference_service import (
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
    TransformerStatus,
)
from gangline.model.kinds.service import Revision, Rollout, ScaleMetric, ServiceSpec
from gangline.model.record import RecordId

MODEL = {"modelFormat": {"name": "sklearn"}, "storageUri": "s3://models/iris"}


def read(predictor: dict[str, Any], **spec: Any) -> InferenceServiceSpec:
    metadata = {"name": "iris", "namespace": "team", "labels": {"a": "b"}, "resourceVersion": "7"}
    body = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata}
    return read_inference_service(document.plain({**body, "spec": {"predictor": predictor, **spec}}))


def service(predictor: dict[str, Any]) -> ServiceSpec:
    return service_of(read(predictor))


@pytest.mark.parametrize("predictor", [{"model": MODEL}, {"sklearn": {"storageUri": "s3://models/iris"}}])
def test_model_is_fetched_and_served_by_its_name(predictor: dict[str, Any]) -> None:
    found = service(predictor)
    assert found.name == "iris-predictor"
    assert found.tenant == "team"
    assert found.job is not None
    assert [(each.source, each.target) for each in found.job.inputs] == [("s3://models/iris", "$DATA_DIR/model/")]
    assert "iris=$(DATA_DIR)/model" in found.job.roles[0].command
    assert found.health.ready.http == "/v2/health/ready"
    assert found.access.repeatable is True


def test_registered_model_is_followed() -> None:
    found = service({"model": {**MODEL, "storageUri": "model://mnist@production"}})
    assert (found.model, found.job) == ("model://mnist@production", None)


def test_container_runs_with_what_its_pod_says() -> None:
    container = {
        "name": "kserve-container",
        "image": "acme/model:1",
        "command": ["serve"],
        "args": ["--port", "$(PORT)"],
        "ports": [{"containerPort": 9000}],
        "env": [{"name": "LEVEL", "value": "3"}],
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
    }
    sidecar = {"name": "agent", "image": "acme/agent:1", "resources": {"requests": {"cpu": "100m"}}}
    found = service({"containers": [sidecar, container], "nodeSelector": {"disk": "fast"}, "labels": {"team": "red"}})
    assert found.job is not None
    role = found.job.roles[0]
    assert role.command == ("serve", "--port", "$(PORT)")
    assert (role.port, role.env["LEVEL"], role.image) == (9000, "3", "acme/model:1")
    assert role.resources == Resources(cpu_millis=2100, memory_mib=1024)
    assert role.pod_template_json is not None
    template = document.plain(json.loads(role.pod_template_json)).fields()
    pod = template["spec"].fields()
    assert [each.fields()["name"].data for each in pod["containers"].items()] == ["kserve-container", "agent"]
    assert pod["nodeSelector"].data == {"disk": "fast"}
    assert template["metadata"].data == {"labels": {"team": "red"}}


CHANGER = {"name": "kserve-container", "image": "acme/change:1", "command": ["change"]}


def test_transformer_is_a_service_in_front_of_its_predictor() -> None:
    container = {**CHANGER, "args": ["--model_name=flowers"]}
    spec = read({"model": MODEL}, transformer={"containers": [container], "minReplicas": 2, "timeout": 9})
    found = transformer_of(spec, "http://router:80/services/iris-predictor.team")
    assert found is not None
    assert (found.name, found.tenant, found.replicas.min, found.access.timeout_seconds) == (
        "iris-transformer",
        "team",
        2,
        9.0,
    )
    assert found.job is not None
    added = ("--predictor_host", "router:80/services/iris-predictor.team", "--http_port", "$(PORT)")
    assert found.job.roles[0].command == ("change", "--model_name=flowers", *added)
    pod = json.loads(found.job.roles[0].pod_template_json or "")["spec"]
    assert pod["containers"][0]["args"] == ["--model_name=flowers", *added]
    assert (service_of(spec).access.hosts, found.access.hosts) == ((), ("iris.team.localhost",))
    assert service({"model": MODEL}).access.hosts == ("iris.team.localhost",)


def test_what_has_no_effect_on_a_transformer_is_told() -> None:
    spec = read({"model": MODEL}, transformer={"containers": [CHANGER], "logger": {"mode": "all"}, "batcher": {"a": 1}})
    assert notes_of(spec) == (
        "spec.transformer.logger: requests to a container are not logged",
        "spec.transformer.batcher: requests to a container are not batched",
    )


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, (1, 1, ScaleMetric.REQUESTS, 100.0), id="nothing said"),
        pytest.param({"minReplicas": 0, "maxReplicas": 3}, (0, 3, ScaleMetric.REQUESTS, 100.0), id="asleep"),
        pytest.param({"minReplicas": 2}, (2, 2, ScaleMetric.REQUESTS, 100.0), id="least alone"),
        pytest.param({"scaleMetric": "rps", "scaleTarget": 5}, (1, 1, ScaleMetric.RATE, 5.0), id="rate"),
        pytest.param({"scaleMetric": "cpu"}, (1, 1, ScaleMetric.CPU, 80.0), id="cpu"),
    ],
)
def test_scaling(given: dict[str, Any], want: tuple[object, ...]) -> None:
    rules = service({"model": MODEL, **given}).replicas
    assert (rules.min, rules.max, rules.metric, rules.target) == want


def test_limits_and_batches() -> None:
    found = service(
        {"model": MODEL, "containerConcurrency": 4, "timeout": 9, "batcher": {"maxBatchSize": 16, "maxLatency": 250}}
    )
    assert (found.access.concurrency, found.access.timeout_seconds) == (4, 9.0)
    assert found.job is not None
    assert found.job.roles[0].command[-4:] == ("--batch", "16", "--latency", "0.25")


def test_canary_stays_at_its_share() -> None:
    assert service({"model": MODEL}).rollout.steps == ()
    rules = service({"model": MODEL, "canaryTrafficPercent": 10}).rollout
    assert rules.steps == (10,)
    assert rules.pause_seconds > 1e8


@pytest.mark.parametrize(
    ("predictor", "spec", "want_field"),
    [
        pytest.param({}, {}, "spec.predictor", id="nothing"),
        pytest.param({"model": MODEL}, {"transformer": {}}, "spec.transformer", id="transformer of nothing"),
        pytest.param(
            {"model": MODEL}, {"transformer": {"containers": []}}, "spec.transformer.containers",
            id="transformer without a container",
        ),
        pytest.param(
            {"model": MODEL}, {"transformer": {"model": MODEL}}, "spec.transformer", id="transformer that is a model"
        ),
        pytest.param({"model": MODEL}, {"explainer": {}}, "spec.explainer", id="explainer"),
        pytest.param(
            {"model": MODEL, "logger": {"url": "sink"}}, {}, "spec.predictor.logger.url", id="logger without a URL"
        ),
        pytest.param(
            {"model": MODEL, "logger": {"url": "http://sink", "mode": "some"}}, {}, "spec.predictor.logger.mode",
            id="logger's mode",
        ),
        pytest.param({"model": {"storageUri": "s3://a/b"}}, {}, "spec.predictor.model.modelFormat", id="format"),
        pytest.param(
            {"model": {**MODEL, "modelFormat": {"name": "sklern"}}},
            {},
            "spec.predictor.model.modelFormat.name",
            id="unknown format",
        ),
        pytest.param({"lightgbm": {"storageUri": "s3://a/b"}}, {}, "spec.predictor.lightgbm", id="not served"),
        pytest.param({"model": {"modelFormat": {"name": "onnx"}}}, {}, "spec.predictor.model.storageUri", id="where"),
        pytest.param(
            {"model": {**MODEL, "storageUri": "hf://a/b"}}, {}, "spec.predictor.model.storageUri", id="scheme"
        ),
        pytest.param(
            {"model": MODEL, "scaleMetric": "memory"}, {}, "spec.predictor.scaleMetric", id="metric nobody measures"
        ),
        pytest.param(
            {"model": MODEL, "minReplicas": -1}, {}, "spec.predictor.minReplicas", id="a negative number"
        ),
        pytest.param({"containers": []}, {}, "spec.predictor.containers", id="no container"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_with_its_field(
    predictor: dict[str, Any], spec: dict[str, Any], want_field: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        read(predictor, **spec)
    assert refusal.value.field == want_field


def test_logger_becomes_that_of_the_model_server() -> None:
    spec = read({"model": MODEL, "logger": {"mode": "request", "url": "http://sink.example.org/events"}})
    job = service_of(spec).job
    assert job is not None
    words = " ".join(job.roles[0].command)
    assert "--log-to http://sink.example.org/events --log-sample 1 --log-mode request" in words
    assert notes_of(spec) == ()


@pytest.mark.parametrize(
    ("predictor", "want"),
    [
        ({"model": MODEL}, ()),
        ({"model": MODEL, "logger": {"mode": "all"}}, ("spec.predictor.logger: nothing is logged without a url",)),
        (
            {"containers": [{"image": "x"}], "logger": {"url": "http://sink"}},
            ("spec.predictor.logger: requests to a container are not logged",),
        ),
    ],
    ids=["none", "without a url", "of a container"],
)
def test_logger_without_effect_is_told(predictor: dict[str, Any], want: tuple[str, ...]) -> None:
    assert notes_of(read(predictor)) == want


def record(status: InferenceServiceStatus, **predictor: Any) -> InferenceService:
    spec = read({"model": MODEL, **predictor})
    return InferenceService(id=RecordId("r"), spec=spec, status=status, created_at=Timestamp(0.0))


def revision(number: int, failed: str = "") -> Revision:
    job = service({"model": MODEL}).job
    assert job is not None
    return Revision(number=number, job=job, created_at=Timestamp(0.0), failed=failed)


BOTH = {"revisions": (revision(1), revision(2)), "last_number": 2, "current": 1, "wanted": 2, "ready": 1}


@pytest.mark.parametrize(
    ("status", "want_ready", "want_transition"),
    [
        pytest.param(InferenceServiceStatus(), "Unknown", "InProgress", id="new"),
        pytest.param(InferenceServiceStatus(current=1, wanted=1, ready=1), "True", "UpToDate", id="answers"),
        pytest.param(InferenceServiceStatus(current=1, wanted=1, scale=0), "True", "UpToDate", id="asleep"),
        pytest.param(InferenceServiceStatus(problem="no model"), "False", "BlockedByFailedLoad", id="blocked"),
        pytest.param(
            InferenceServiceStatus(**{**BOTH, "rollout": Rollout(revision=2)}),
            "Unknown",
            "InProgress",
            id="next not ready",
        ),
        pytest.param(
            InferenceServiceStatus(**{**BOTH, "rollout": Rollout(revision=2, since=Timestamp(1.0))}),
            "True",
            "InProgress",
            id="canary",
        ),
        pytest.param(
            InferenceServiceStatus(**{**BOTH, "revisions": (revision(1), revision(2, "it crashes"))}),
            "False",
            "BlockedByFailedLoad",
            id="next failed",
        ),
    ],
)
def test_conditions(status: InferenceServiceStatus, want_ready: str, want_transition: str) -> None:
    found = inference_service_to_status(record(status, canaryTrafficPercent=10), observed=True)
    assert {each["type"]: each["status"] for each in found["conditions"]}["Ready"] == want_ready
    assert found["modelStatus"]["transitionStatus"] == want_transition
    assert found["observedGeneration"] == 1


def test_traffic_of_a_canary() -> None:
    status = InferenceServiceStatus(
        **{**BOTH, "rollout": Rollout(revision=2, since=Timestamp(1.0))}, address="http://r/x"
    )
    found = inference_service_to_status(record(status, canaryTrafficPercent=10), observed=True)
    predictor = found["components"]["predictor"]
    assert [(each["revisionName"], each["percent"]) for each in predictor["traffic"]] == [
        ("iris-predictor-00002", 10),
        ("iris-predictor-00001", 90),
    ]
    assert predictor["latestReadyRevision"] == "iris-predictor-00002"
    assert predictor["latestRolledoutRevision"] == "iris-predictor-00001"
    assert found["url"] == "http://r/x"


@pytest.mark.parametrize(
    ("transformer", "want", "want_url"),
    [
        pytest.param(None, "Unknown", None, id="not begun"),
        pytest.param(TransformerStatus(problem="it exits"), "False", None, id="blocked"),
        pytest.param(
            TransformerStatus(current=1, wanted=1, last_number=1, ready=1, address="http://r/t"),
            "True",
            "http://r/t",
            id="answers",
        ),
    ],
)
def test_service_is_as_ready_as_the_less_ready_of_both(
    transformer: TransformerStatus | None, want: str, want_url: str | None
) -> None:
    status = InferenceServiceStatus(
        current=1, wanted=1, last_number=1, ready=1, address="http://r/p", transformer=transformer
    )
    spec = read({"model": MODEL}, transformer={"containers": [CHANGER]})
    whole = InferenceService(id=RecordId("r"), spec=spec, status=status, created_at=Timestamp(0.0))
    found = inference_service_to_status(whole, observed=True)
    conditions = {each["type"]: each["status"] for each in found["conditions"]}
    assert (conditions["PredictorReady"], conditions["TransformerReady"], conditions["Ready"]) == ("True", want, want)
    assert found["components"].keys() == {"predictor", "transformer"}
    assert found["components"]["predictor"]["url"] == "http://r/p"
    assert found["modelStatus"]["transitionStatus"] == "UpToDate"
    assert found.get("url") == want_url


def test_spec_that_nobody_has_looked_at_is_not_observed() -> None:
    whole = inference_service_to_object(record(InferenceServiceStatus(current=1, wanted=1, ready=1)), observed=False)
    assert whole["status"]["observedGeneration"] == whole["metadata"]["generation"] - 1
    assert {each["status"] for each in whole["status"]["conditions"]} == {"Unknown"}
    assert whole["metadata"]["labels"] == {"a": "b"}
    assert whole["spec"] == {"predictor": {"model": MODEL}}
