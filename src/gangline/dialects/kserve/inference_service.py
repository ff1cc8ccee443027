"""An InferenceService as services: its predictor, a model or a container, and the transformer in front of it. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gangline.dialects.document import compact_json, plain
from gangline.dialects.kubeflow.pod_template import container_resources
from gangline.dialects.value import Value
from gangline.model import DEFAULT_TENANT, DataMove, JobSpec, Policy, Resources, RoleName, RoleSpec, Tenant
from gangline.model.kinds.inference_service import InferenceServiceSpec
from gangline.model.kinds.registered_model import model_reference
from gangline.model.kinds.service import (
    PORT,
    Access,
    Check,
    Checks,
    Logged,
    Logging,
    ReplicaRange,
    RolloutRules,
    ScaleMetric,
    ServiceSpec,
)
from gangline.serving.revisions import logging_arguments, model_server_command

API_VERSION = "serving.kserve.io/v1beta1"
KIND = "InferenceService"
_FORMATS = ("sklearn", "xgboost", "onnx", "pytorch", "tensorflow", "numpy", "python")
"""What ``gangline.serve`` recognizes by its files."""
_OTHER_FORMATS = ("lightgbm", "paddle", "pmml", "triton", "huggingface", "mlflow")
_CONTAINER = "kserve-container"
_PORT = 8080
_SCHEMES = ("file", "http", "https", "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "nfs", "pvc", "job", "model")
"""Where data is fetched from (docs/data.md); whoever fetches says what else is wrong with an address."""
_OF_COMPONENT = (
    "minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "containerConcurrency", "timeout",
    "canaryTrafficPercent", "logger", "batcher", "labels", "annotations", "deploymentStrategy", "model", "containers",
    "autoScaling", "workerSpec", *_FORMATS, *_OTHER_FORMATS,
)  # fmt: skip
"""Fields of a predictor that are not a pod's."""
_NO_EXPLAINER = "a predictor and perhaps a transformer: an explainer can be a Service of its own that asks this one"
_OF_MODEL = ("modelFormat", "storageUri", "storage", "runtime", "runtimeVersion", "protocolVersion", "name")
_SERVER_FIELDS = ("creationTimestamp", "managedFields", "resourceVersion", "selfLink", "uid")
_METRICS = {"concurrency": ScaleMetric.REQUESTS, "rps": ScaleMetric.RATE, "cpu": ScaleMetric.CPU}
_TARGETS = {ScaleMetric.REQUESTS: 100.0, ScaleMetric.RATE: 200.0, ScaleMetric.CPU: 80.0}
"""KServe's own, of Knative and of the autoscaler."""
_FOREVER_SECONDS = 10 * 365 * 86400.0
"""A canary stays at its share until somebody changes it."""
_MODEL_RESOURCES = Resources(cpu_millis=1000, memory_mib=2048)


def read_inference_service(value: Value) -> InferenceServiceSpec:
    """Read a document; it is made into a service once, so that what is wrong with it is refused now."""
    top = value.fields()
    if "spec" not in top:
        raise value.missing("spec", "a predictor")
    metadata = value.need("metadata", "a name").fields()
    if "name" not in metadata:
        raise value.wrong("the field is missing", expected="a name", below=".metadata.name")
    namespace = metadata["tenant"] if "tenant" in metadata else metadata.get("namespace")
    tenant = Tenant(namespace.text()) if namespace is not None else DEFAULT_TENANT
    generation = metadata["generation"].integer(0) if "generation" in metadata else 1
    kept = {name: each.data for name, each in metadata.items() if name not in (*_SERVER_FIELDS, "tenant", "generation")}
    spec = top["spec"]
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {**kept, "namespace": tenant}, "spec": spec.data}
    with value.located():
        found = InferenceServiceSpec(
            name=metadata["name"].text(), tenant=tenant, manifest_json=compact_json(body), generation=max(generation, 1)
        )
    _predictor(spec, found.name, tenant)
    _transformer(spec, found.name, tenant, "")
    return found


@lru_cache(maxsize=1000)
def service_of(spec: InferenceServiceSpec) -> ServiceSpec:
    """Return the service that the predictor of an InferenceService is."""
    return _predictor(_spec_of(spec), spec.name, spec.tenant)


@lru_cache(maxsize=1000)
def transformer_of(spec: InferenceServiceSpec, predictor_address: str) -> ServiceSpec | None:
    """Return the service that its transformer is, which asks its predictor at this address; None: it has none."""
    return _transformer(_spec_of(spec), spec.name, spec.tenant, predictor_address)


def _spec_of(spec: InferenceServiceSpec) -> Value:
    return plain(json.loads(spec.manifest_json)).fields()["spec"]


def notes_of(spec: InferenceServiceSpec) -> tuple[str, ...]:
    """Say what of a document is accepted and has no effect."""
    given = json.loads(spec.manifest_json)["spec"]
    predictor, transformer = (given.get(each) or {} for each in ("predictor", "transformer"))
    notes = [
        f"spec.transformer.{each}: requests to a container are not {done}"
        for each, done in (("logger", "logged"), ("batcher", "batched"))
        if transformer.get(each)
    ]
    if not predictor.get("logger"):
        return tuple(notes)
    if "containers" in predictor and "model" not in predictor:
        return ("spec.predictor.logger: requests to a container are not logged", *notes)
    unheard = () if predictor["logger"].get("url") else ("spec.predictor.logger: nothing is logged without a url",)
    return (*unheard, *notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """What each replica runs."""

    job: JobSpec | None = None
    model: str = ""
    arguments: tuple[str, ...] = ()
    resources: Resources = _MODEL_RESOURCES
    image: str = ""
    checks: Checks | None = None


def _predictor(spec: Value, name: str, tenant: Tenant) -> ServiceSpec:
    parts = spec.fields()
    if "explainer" in parts:
        raise parts["explainer"].wrong("an explainer is not supported", expected=_NO_EXPLAINER)
    if "predictor" not in parts:
        raise spec.missing("predictor", "a model or a container")
    predictor = parts["predictor"]
    program = _program(predictor, predictor.fields(), name)
    return _component(predictor, f"{name}-predictor", tenant, program, () if "transformer" in parts else (name,))


def _transformer(spec: Value, name: str, tenant: Tenant, predictor_address: str) -> ServiceSpec | None:
    parts = spec.fields()
    if "transformer" not in parts:
        return None
    transformer = parts["transformer"]
    given = transformer.fields()
    if "containers" not in given:
        raise transformer.wrong("nothing is run", expected="containers")
    host = predictor_address.partition("://")[2]
    words = (("--model_name", name), ("--predictor_host", host), ("--http_port", f"$({PORT})"))
    program = _container_program(transformer, given, words)
    return _component(transformer, f"{name}-transformer", tenant, program, (name,))


def _component(value: Value, name: str, tenant: Tenant, program: _Program, hosts: tuple[str, ...]) -> ServiceSpec:
    """One part of an InferenceService as a service. ``hosts``: what it is called by those who know the whole."""
    given = value.fields()
    canary = given["canaryTrafficPercent"].integer(0, 100) if "canaryTrafficPercent" in given else 100
    concurrency = given["containerConcurrency"].integer(0) if "containerConcurrency" in given else 0
    with value.located():
        return ServiceSpec(
            name=name,
            tenant=tenant,
            model=program.model,
            arguments=program.arguments,
            resources=program.resources,
            image=program.image,
            job=program.job,
            replicas=_replicas(given),
            checks=program.checks,
            rollout=RolloutRules(
                steps=() if canary == 100 else (canary,), pause_seconds=10.0 if canary == 100 else _FOREVER_SECONDS
            ),
            access=Access(
                hosts=tuple(f"{each}.{tenant}.localhost" for each in hosts),
                timeout_seconds=float(given["timeout"].integer(1)) if "timeout" in given else 60.0,
                concurrency=concurrency,
                repeatable=True if program.job is None or _is_model(given) else None,
            ),
        )


def _is_model(given: Mapping[str, Value]) -> bool:
    return "containers" not in given


def _replicas(given: Mapping[str, Value]) -> ReplicaRange:
    least = given["minReplicas"].integer(0) if "minReplicas" in given else 1
    # KServe takes none, or 0, for no limit; a number that nobody gave would let one mistake take a whole cluster.
    most = given["maxReplicas"].integer(0) if "maxReplicas" in given else 0
    metric = _METRICS[given["scaleMetric"].one_of(_METRICS)] if "scaleMetric" in given else ScaleMetric.REQUESTS
    target = float(given["scaleTarget"].integer(1)) if "scaleTarget" in given else _TARGETS[metric]
    return ReplicaRange(min=least, max=max(most, least, 1), metric=metric, target=target)


def _program(predictor: Value, given: Mapping[str, Value], name: str) -> _Program:
    if "containers" in given and "model" not in given:
        return _container_program(predictor, given)
    if "model" in given:
        model = given["model"]
        kind = model.need("modelFormat", "the format of the model").need("name", "its name").one_of(_FORMATS)
    else:
        found = [each for each in (*_FORMATS, *_OTHER_FORMATS) if each in given]
        if not found:
            raise predictor.wrong("nothing is served", expected="a model or containers")
        model, kind = given[found[0]], found[0]
        if kind not in _FORMATS:
            raise model.wrong(f"{kind} is not supported", expected=f"one of {', '.join(_FORMATS)}, or containers")
    return _model_program(model, given, name)


def _model_program(model: Value, given: Mapping[str, Value], name: str) -> _Program:
    fields = model.fields()
    if "storageUri" not in fields:
        raise model.missing("storageUri", "where the model is")
    address = fields["storageUri"].text()
    resources = container_resources(fields) if "resources" in fields else _MODEL_RESOURCES
    image = fields["image"].text() if "image" in fields else ""
    arguments = (*_batching(given), *_logging(given, name), *(fields["args"].words() if "args" in fields else ()))
    container = {key: each.data for key, each in fields.items() if key not in _OF_MODEL}
    template = _template(given, [container] if container.keys() - {"resources", "args", "image"} else [])
    if model_reference(address) is not None and template is None:
        return _Program(model=address, arguments=arguments, resources=resources, image=image)
    scheme, found, _ = address.partition("://")
    if found and scheme not in _SCHEMES:
        expected = "file://, s3://, gs://, https://, pvc:// or model://"
        raise fields["storageUri"].wrong(f"{scheme}:// is not known", expected=expected)
    role = RoleSpec(
        name=RoleName("server"),
        command=model_server_command(name, arguments),
        resources=resources,
        env=_variables(fields),
        pod_template_json=template,
    )
    moves = (DataMove(address, "$DATA_DIR/model/"),)
    job = JobSpec(name=name, roles=(role,), image=image or None, inputs=moves, policy=Policy(grace_seconds=30.0))
    return _Program(job=job, checks=Checks(ready=Check(http="/v2/health/ready")))


def _batching(given: Mapping[str, Value]) -> tuple[str, ...]:
    if "batcher" not in given:
        return ()
    rules = given["batcher"].fields()
    rows = rules["maxBatchSize"].integer(1) if "maxBatchSize" in rules else 32
    latency = rules["maxLatency"].integer(1) if "maxLatency" in rules else 5000
    return ("--batch", str(rows), "--latency", f"{latency / 1000:g}")


def _logging(given: Mapping[str, Value], name: str) -> tuple[str, ...]:
    rules = given["logger"].fields() if "logger" in given else {}
    if "url" not in rules:
        return ()
    address = rules["url"].text()
    if not address.startswith(("http://", "https://")):
        raise rules["url"].wrong("this is not a URL", expected="http:// or https://")
    mode = Logged(rules["mode"].one_of([*Logged])) if "mode" in rules else Logged.ALL
    return logging_arguments(Logging(to=address, mode=mode), name)


def _container_program(
    component: Value, given: Mapping[str, Value], options: tuple[tuple[str, str], ...] = ()
) -> _Program:
    """What a container runs. ``options`` are added to its arguments, as KServe does, unless it has them already."""
    values = given["containers"].items()
    if not values:
        raise component.wrong("nothing is served", expected="at least one container", below=".containers")
    # The one that answers comes first, which is how a pod's own is found again.
    values.sort(key=lambda each: each.fields().get("name") is None or each.fields()["name"].data != _CONTAINER)
    main = values[0].fields()
    command, arguments = (main[name].words() if name in main else () for name in ("command", "args"))
    named = {each.partition("=")[0] for each in (*command, *arguments)}
    arguments += tuple(word for option in options if option[0] not in named for word in option)
    ports = [each.fields() for each in main["ports"].items()] if "ports" in main else []
    port = next((each["containerPort"].integer(1, 65535) for each in ports if "containerPort" in each), _PORT)
    resources = [container_resources(each.fields()) for each in values]
    containers: list[Any] = [each.data for each in values]
    if options:
        containers[0] = {**containers[0], "args": list(arguments)}
    role = RoleSpec(
        name=RoleName("server"),
        command=command + arguments if command else (),
        resources=sum(resources[1:], resources[0]),
        env=_variables(main),
        image=main["image"].text() if "image" in main else None,
        port=port,
        pod_template_json=_template(given, containers),
    )
    return _Program(job=JobSpec(name="predictor", roles=(role,), policy=Policy(grace_seconds=30.0)))


def _variables(container: Mapping[str, Value]) -> dict[str, str]:
    found = [each.fields() for each in container["env"].items()] if "env" in container else []
    return {each["name"].text(): each["value"].text() for each in found if "name" in each and "value" in each}


def _template(given: Mapping[str, Value], containers: list[Any]) -> str | None:
    """The pod that a predictor describes; None if it says nothing of one."""
    pod = {name: each.data for name, each in given.items() if name not in _OF_COMPONENT}
    if containers:
        pod["containers"] = containers
    metadata = {name: given[name].data for name in ("labels", "annotations") if name in given}
    if not pod and not metadata:
        return None
    return compact_json({**({"metadata": metadata} if metadata else {}), "spec": pod})
