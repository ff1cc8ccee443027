"""Arena's flags as services."""

import json
from typing import Any

import pytest

from gangline.dialects.arena.serve_options import REFUSED_SERVE_VERBS, SERVE_NAMES, ServeVerb, serve_options_of
from gangline.dialects.arena.serving import service_from_options
from gangline.dialects.kserve import service_of
from gangline.errors import InvalidInputError
from gangline.model import Resources, Tenant
from gangline.model.kinds.inference_service import InferenceServiceSpec
from gangline.model.kinds.service import Check, ScaleMetric, ServiceSpec

TENANT = Tenant("team")


def serve(verb: ServeVerb, *command: str, **options: object) -> Any:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return service_from_options(verb, named, command, tenant=TENANT)


def pod(spec: ServiceSpec) -> dict[str, Any]:
    assert spec.job is not None
    found: dict[str, Any] = json.loads(spec.job.roles[0].pod_template_json or "{}")
    return found


class TestTensorflow:
    def test_a_model_of_a_volume_is_served_by_its_name(self) -> None:
        spec = serve(
            ServeVerb.TENSORFLOW,
            name="mnist",
            version="v1",
            model_name="digits",
            model_path="/models/mnist",
            data=("claim:/models",),
            gpus=1,
            replicas=2,
        )
        assert (spec.name, spec.tenant, spec.replicas.min) == ("mnist-v1", "team", 2)
        role = spec.job.roles[0]
        assert role.command[-2:] == ("digits", "/models/mnist")
        assert "tensorflow_model_server" in role.command[2]
        assert "gangline.serve" in role.command[2]
        assert role.resources == Resources(gpu_millis=1000)
        assert spec.checks.ready == Check(http="/v1/models/digits")
        assert pod(spec)["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "claim"}

    @pytest.mark.parametrize(
        ("given", "want"),
        [
            ({"name": "a", "model_path": "/m"}, "--model-name: it is not said which model"),
            ({"name": "a", "model_name": "m"}, "--model-path: it is not said which model"),
            ({"model_name": "m", "model_path": "/m"}, "--name: a service needs a name"),
            ({"name": "A_", "model_name": "m", "model_path": "/m"}, "--name: 'A_' is not a valid name"),
            ({"name": "a", "model_name": "m=n", "model_path": "/m"}, "--model-name: 'm=n' is not a name"),
        ],
    )
    def test_what_is_missing_is_named(self, given: dict[str, object], want: str) -> None:
        with pytest.raises(InvalidInputError, match=want):
            serve(ServeVerb.TENSORFLOW, **given)

    def test_a_command_is_not_for_it(self) -> None:
        with pytest.raises(InvalidInputError, match="a model has no command"):
            serve(ServeVerb.TENSORFLOW, "python", "a.py", name="a", model_name="m", model_path="/m")


class TestCustom:
    def test_a_command_in_quotes_runs_in_a_shell(self) -> None:
        spec = serve(
            ServeVerb.CUSTOM, "python app.py", name="a", shell="bash", restful_port=5000, port=5001, env=["A=1"]
        )
        role = spec.job.roles[0]
        assert (role.command, role.port) == (("bash", "-c", "python app.py"), 5000)
        assert spec.job.env == {"A": "1"}
        assert spec.checks is None
        assert serve(ServeVerb.CUSTOM, name="a", command="a b", port=7).job.roles[0].port == 7

    def test_an_image_alone_runs_its_own_command(self) -> None:
        spec = serve(ServeVerb.CUSTOM, name="a", image="nginx")
        assert (spec.job.image, spec.job.roles[0].command) == ("nginx", ())
        (container,) = pod(spec)["spec"]["containers"]
        assert container == {"name": "server", "image": "nginx"}

    def test_probes_are_checks(self) -> None:
        spec = serve(
            ServeVerb.CUSTOM,
            "x",
            name="a",
            liveness_probe_action="httpGet",
            liveness_probe_action_option=["path: /healthz", "port: 80"],
            liveness_probe_option=["periodSeconds: 3", "failureThreshold=5", "initialDelaySeconds: 9"],
            readiness_probe_action="exec",
            readiness_probe_action_option=["command=cat /tmp/healthy"],
            startup_probe_action="tcpSocket",
        )
        assert spec.checks.live == Check(http="/healthz", every_seconds=3, timeout_seconds=1, failures=5)
        assert spec.checks.ready == Check(exec=("sh", "-c", "cat /tmp/healthy"), every_seconds=10, timeout_seconds=1)
        assert spec.checks.start == Check(every_seconds=10, timeout_seconds=1)

    def test_what_a_cluster_alone_has_is_in_the_pod(self) -> None:
        spec = serve(
            ServeVerb.CUSTOM,
            "x",
            name="a",
            env_from_secret=["KEY=vault"],
            temp_dir=["scratch:/scratch"],
            data_dir=["/srv/models:/models"],
            annotation=["a=b"],
            max_surge=3,
            label=["team=x"],
            selector=["zone=a"],
            toleration=["all"],
        )
        found = pod(spec)
        (container,) = found["spec"]["containers"]
        secret = {"secretKeyRef": {"name": "vault", "key": "KEY"}}
        assert container["env"] == [{"name": "KEY", "valueFrom": secret}]
        assert {each["mountPath"] for each in container["volumeMounts"]} == {"/scratch", "/models"}
        assert {"name": "scratch", "emptyDir": {}} in found["spec"]["volumes"]
        assert found["metadata"]["annotations"] == {"a": "b"}
        assert spec.rollout.surge == 3
        assert spec.job.labels["team"] == "x"
        assert spec.job.placement.node_selector == {"zone": "a"}

    @pytest.mark.parametrize(
        ("given", "want"),
        [
            ({}, "nothing is served"),
            ({"replicas": -1, "image": "x"}, "--replicas: -1 is too small"),
            ({"image": "x", "temp_dir": ["scratch"]}, "'scratch' is not a directory"),
            ({"image": "x", "restful_port": 99999}, "--restful-port: 99999 is too large"),
            ({"image": "x", "gpus": -1}, "--gpus: '-1' is negative"),
            ({"image": "x", "max_surge": 0}, "--max-surge: 0 does not fit"),
            ({"image": "x", "liveness_probe_action": "grpc"}, "--liveness-probe-action: 'grpc' is not known"),
            (
                {"image": "x", "liveness_probe_action": "exec", "liveness_probe_option": ["often: 3"]},
                "'often' is not known",
            ),
            (
                {"image": "x", "liveness_probe_action": "exec", "liveness_probe_option": ["periodSeconds: soon"]},
                "'soon' is not a number",
            ),
            ({"image": "x", "liveness_probe_action": "exec", "liveness_probe_option": ["3"]}, "'3' says nothing"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, given: dict[str, object], want: str) -> None:
        with pytest.raises(InvalidInputError, match=want):
            serve(ServeVerb.CUSTOM, name="a", **given)

    def test_two_commands_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="there are two commands"):
            serve(ServeVerb.CUSTOM, "x", name="a", command="y")


class TestKserve:
    def test_a_model_is_the_inference_service_that_arena_makes(self) -> None:
        spec = serve(
            ServeVerb.KSERVE,
            name="iris",
            model_format="sklearn:1",
            storage_uri="s3://bucket/iris",
            min_replicas=0,
            max_replicas=3,
            scale_metric="rps",
            scale_target=20,
            canary_traffic_percent=10,
            container_concurrency=4,
            timeout=30,
            cpu="2",
            env=["A=1"],
            env_from_secret=["B=vault"],
            security_context=["runAsUser=1000"],
        )
        assert isinstance(spec, InferenceServiceSpec)
        predictor = json.loads(spec.manifest_json)["spec"]["predictor"]
        assert predictor["model"]["modelFormat"] == {"name": "sklearn", "version": "1"}
        assert [each["name"] for each in predictor["model"]["env"]] == ["A", "B"]
        assert predictor["securityContext"] == {"runAsUser": 1000}
        service = service_of(spec)
        assert (service.replicas.min, service.replicas.max, service.replicas.target) == (0, 3, 20)
        assert (service.replicas.metric, service.rollout.steps) == (ScaleMetric.RATE, (10,))
        assert (service.access.concurrency, service.access.timeout_seconds) == (4, 30)

    def test_a_container_runs_its_command(self) -> None:
        spec = serve(ServeVerb.KSERVE, "python app.py", name="own", image="acme/app", port=9000, gpus=1)
        (container,) = json.loads(spec.manifest_json)["spec"]["predictor"]["containers"]
        assert container["command"] == ["sh", "-c", "python app.py"]
        assert container["ports"] == [{"containerPort": 9000}]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}

    @pytest.mark.parametrize(
        ("given", "want"),
        [
            ({}, "nothing is served"),
            ({"model_format": "sklearn"}, "--storage-uri: it is not said where"),
            ({"model_format": "lightgbm", "storage_uri": "s3://a/b"}, "modelFormat"),
            ({"image": "x", "security_context": ["runAsUser=root"]}, "--security-context: 'runAsUser=root' is not"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, given: dict[str, object], want: str) -> None:
        with pytest.raises(InvalidInputError, match=want):
            serve(ServeVerb.KSERVE, name="a", **given)


def test_no_verb_has_two_options_of_one_name() -> None:
    for verb in ServeVerb:
        names = [name for option in serve_options_of(verb) for name in (option.name, *option.old_names)]
        assert len(names) == len(set(names))
    assert not SERVE_NAMES.keys() & REFUSED_SERVE_VERBS.keys()
