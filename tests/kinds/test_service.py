"""The file of a service, and what its verbs refuse."""

import re
from pathlib import Path

import pytest

from gangline.dialects import document
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.kind import Owned
from gangline.kinds.service import SERVICE, pause, plan_service, resume, scale
from gangline.model import Timestamp
from gangline.model.kinds.service import Logged, Logging, ScaleMetric, ServiceSpec
from tests.serving.world import make_service

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
FILE = next(text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: Service" in text)


def test_documented_file_is_read_and_written_back() -> None:
    spec = SERVICE.format.read(document.parse(FILE)[0], {})
    assert (spec.name, spec.replicas.most, spec.replicas.metric) == ("digits", 4, ScaleMetric.REQUESTS)
    assert (spec.rollout.steps, spec.rollout.latency_seconds, spec.access.drain_seconds) == ((10, 50), 0.5, 60)
    assert spec.health.live is not None
    assert spec.logging == Logging(to="s3://pond/digits", sample=0.1, mode=Logged.ALL)
    assert SERVICE.format.read(document.plain(SERVICE.format.write(spec)), {}) == spec


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{}", "spec"),
        ("{model: mnist}", "spec.model"),
        ("{model: 'model://mnist', access: {port: 70000}}", "spec.access.port"),
        ("{model: 'model://mnist', access: {port: 8443, certificate: /a.pem}}", "spec.access"),
        ("{model: 'model://mnist', access: {hosts: ['digits:8080']}}", "spec.access.hosts"),
        ("{model: 'model://mnist', access: {tokens: {ann: secret}}}", "spec.access.tokens"),
        ("{model: 'model://mnist', replicas: {min: 3, max: 2}}", "spec.replicas.max"),
        ("{model: 'model://mnist', replicas: {metric: reported}}", "spec.replicas.reported"),
        ("{model: 'model://mnist', rollout: {steps: [120]}}", "spec.rollout.steps"),
        ("{model: 'model://mnist', checks: {ready: {http: ready}}}", "spec.checks"),
        ("{model: 'model://mnist', checks: {live: {http: /, exec: [a]}}}", "spec.checks"),
        ("{model: 'model://mnist', logging: {to: logs}}", "spec.logging.to"),
        ("{model: 'model://mnist', logging: {to: 'file:///logs', sample: 0}}", "spec.logging.sample"),
        ("{job: {roles: {a: {command: [b]}}}, logging: {to: 'file:///logs'}}", "spec.logging"),
    ],
)
def test_what_no_service_can_be_is_refused_with_its_field(text: str, field: str) -> None:
    file = f"apiVersion: gangline.dev/v1\nkind: Service\nmetadata: {{name: digits}}\nspec: {text}\n"
    with pytest.raises(InvalidInputError, match=re.escape(field)):
        SERVICE.format.read(document.parse(file)[0], {})


def test_nothing_is_decided_where_nobody_looks_at_replicas() -> None:
    wanted = plan_service(make_service(), Owned(), Timestamp(1))
    assert (wanted.create, wanted.status.state) == ((), "blocked")


def test_only_a_rollout_can_be_paused() -> None:
    for verb in (pause, resume):
        with pytest.raises(ConflictError, match="nothing is being rolled out"):
            verb(make_service())


def test_scale_changes_the_range_and_refuses_what_is_not_a_number() -> None:
    changed = scale(make_service(), {"min": "0", "max": "4"}).spec.replicas
    assert (changed.min, changed.most) == (0, 4)
    assert scale(make_service(), {"min": "3"}).spec.replicas.most == 3
    with pytest.raises(InvalidInputError, match="not a number"):
        scale(make_service(), {"min": "many"})


def test_model_server_is_asked_whether_it_is_ready_and_other_programs_for_a_connection() -> None:
    assert ServiceSpec(name="a", model="model://mnist").health.ready.http == "/v2/health/ready"
    assert not make_service().spec.health.ready.http
