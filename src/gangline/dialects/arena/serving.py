"""Services from the flags of ``arena serve``: a service of ours, or for KServe the InferenceService it would make."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.dialects.arena.job import toleration_of
from gangline.dialects.arena.options import Options
from gangline.dialects.arena.serve_options import ServeVerb
from gangline.dialects.arena.volumes import pod_template, texts_of
from gangline.dialects.document import plain
from gangline.dialects.kserve import API_VERSION, KIND, read_inference_service
from gangline.dialects.native.job import job_from_plain
from gangline.dialects.native.short_form import pairs
from gangline.errors import InvalidInputError
from gangline.model import JobSpec, Tenant
from gangline.model.kinds.inference_service import InferenceServiceSpec
from gangline.model.kinds.service import Check, Checks, ReplicaRange, RolloutRules, ServiceSpec

_MODEL_SERVER = (
    "if command -v tensorflow_model_server >/dev/null; then exec tensorflow_model_server --port=0 "
    '"--rest_api_port=$PORT" "--model_name=$1" "--model_base_path=$2"; fi; '
    'exec "${GANGLINE_PYTHON:-python3}" -m gangline.serve --host "$HOST" --port "$PORT" --model "$1=$2"'
)
"""TensorFlow Serving where the image or the machine has it, else the model server, which answers at the same paths."""
_NUMBERS = {"periodSeconds": "every_seconds", "timeoutSeconds": "timeout_seconds", "failureThreshold": "failures"}
_UNUSED = ("initialDelaySeconds", "successThreshold", "terminationGracePeriodSeconds")
"""What Kubernetes' probes have besides: replicas are looked at from the beginning, and the first success counts."""
_CONTAINER = "kserve-container"


_OPTIONS_OF = {
    "name": "--name",
    "port": "--restful-port",
    "cpu": "--cpu",
    "memory": "--memory",
    "gpu": "--gpus",
    "surge": "--max-surge",
    "min": "--replicas",
}
"""The option that a field of a service came from."""


def service_from_options(
    verb: ServeVerb, options: Options, command: Sequence[str], *, tenant: Tenant
) -> ServiceSpec | InferenceServiceSpec:
    """Build what ``serve VERB`` with these options means. Raises InvalidInputError."""
    name = _name(options)
    if verb is ServeVerb.KSERVE:
        return read_inference_service(plain(_inference_service(name, options, command, tenant)))
    try:
        return _service(verb, name, options, command, tenant)
    except InvalidInputError as error:
        field = _OPTIONS_OF.get((error.field or "").rpartition(".")[2], error.field)
        raise InvalidInputError(
            error.problem, field=field, expected=error.expected, suggestion=error.suggestion
        ) from error


def _service(verb: ServeVerb, name: str, options: Options, command: Sequence[str], tenant: Tenant) -> ServiceSpec:
    checks: Checks | None
    if verb is ServeVerb.TENSORFLOW:
        job, checks = _tensorflow_job(options, command), _model_checks(options)
    else:
        job, checks = _job(options, _words(options, command)), _checks(options)
    surge = options.get("max-surge", 1)
    return ServiceSpec(
        name=name,
        tenant=tenant,
        job=job,
        replicas=ReplicaRange(min=_whole(options, "replicas", 1)),
        checks=checks,
        rollout=RolloutRules(surge=surge if isinstance(surge, int) else 1),
    )


def _name(options: Options) -> str:
    if not options.get("name"):
        raise InvalidInputError("a service needs a name", field="--name", expected="--name NAME")
    return "-".join(str(options[each]) for each in ("name", "version") if options.get(each))


def _whole(options: Options, name: str, default: int) -> int:
    given = options.get(name, default)
    if isinstance(given, int) and given >= 0:
        return given
    raise InvalidInputError(f"{given} is too small", field=f"--{name}", expected="0 or more")


def _words(options: Options, command: Sequence[str]) -> list[str]:
    """One string goes to a shell, as Arena does it; several words are run as they are."""
    given = str(options.get("command", ""))
    if given and command:
        raise InvalidInputError("there are two commands", field="--command", expected="one, there or at the end")
    if given or (len(command) == 1 and len(command[0].split()) > 1):
        return [str(options.get("shell", "sh")), "-c", given or command[0]]
    return list(command)


def _tensorflow_job(options: Options, command: Sequence[str]) -> JobSpec:
    if command:
        raise InvalidInputError("a model has no command", field=command[0], expected="'gangline serve custom' for one")
    for name in ("model-name", "model-path"):
        if not options.get(name):
            raise InvalidInputError("it is not said which model", field=f"--{name}", expected="a name and a directory")
    model, path = str(options["model-name"]), str(options["model-path"])
    if any(mark in model for mark in "=/: "):
        raise InvalidInputError(f"'{model}' is not a name", field="--model-name", expected="a word of paths")
    return _job(options, ["sh", "-c", _MODEL_SERVER, "serve", model, path])


def _model_checks(options: Options) -> Checks:
    return Checks(ready=Check(http=f"/v1/models/{options['model-name']}"))


def _job(options: Options, command: list[str]) -> JobSpec:
    if not command and not options.get("image"):
        raise InvalidInputError("nothing is served", field="COMMAND", expected="a command at the end, or --image")
    role = {
        "command": command or ["true"],
        "port": options.get("restful-port") or options.get("port"),
        "resources": _resources(options),
        **_template(options, command),
    }
    document = {
        "metadata": {"name": "job", "labels": pairs(texts_of(options, "label"), "--label")},
        "spec": {
            "image": options.get("image"),
            "env": pairs(texts_of(options, "env"), "--env"),
            "roles": {"server": role},
            "placement": {
                "node_selector": pairs(texts_of(options, "selector"), "--selector"),
                "tolerations": [toleration_of(text) for text in texts_of(options, "toleration")],
            },
        },
    }
    job = job_from_plain(document)
    # Without a command it is the image's own that runs, which a job file has no words for.
    return job if command else replace(job, roles=(replace(job.roles[0], command=()),))


def _resources(options: Options) -> dict[str, object]:
    amounts = {"cpu": options.get("cpu", 0), "memory": options.get("memory"), "gpu": options.get("gpus")}
    devices = pairs(texts_of(options, "device"), "--device")
    return {name: amount for name, amount in {**amounts, **devices}.items() if amount is not None}


def _template(options: Options, command: Sequence[str]) -> dict[str, Any]:
    """The pod that only a cluster needs."""
    secrets, folders = _secret_variables(options), _folders(options)
    made: dict[str, Any] = pod_template(
        "server", options, "server", command, needed=bool(secrets or folders or not command)
    )
    if not made:
        return {}
    pod = made["pod_template"]["spec"]
    container = pod["containers"][0]
    if secrets:
        container["env"] = secrets
    if folders:
        pod["volumes"] = [*pod.get("volumes", ()), *({"name": name, "emptyDir": {}} for name in folders)]
        mounts = ({"name": name, "mountPath": path} for name, path in folders.items())
        container["volumeMounts"] = [*container.get("volumeMounts", ()), *mounts]
    return made


def _secret_variables(options: Options) -> list[dict[str, Any]]:
    found = pairs(texts_of(options, "env-from-secret"), "--env-from-secret")
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name, secret in found.items()
    ]


def _folders(options: Options) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts_of(options, "temp-dir"):
        name, colon, path = text.partition(":")
        if not name or not colon or not path.startswith("/"):
            raise InvalidInputError(f"'{text}' is not a directory", field="--temp-dir", expected="NAME:/PATH")
        found[name] = path
    return found


def _checks(options: Options) -> Checks | None:
    ready, live, start = (_check(options, probe) for probe in ("readiness", "liveness", "startup"))
    if ready is None and live is None and start is None:
        return None
    return Checks(ready=ready or Check(), live=live, start=start)


def _check(options: Options, probe: str) -> Check | None:
    action = options.get(f"{probe}-probe-action")
    if action is None:
        return None
    if action not in ("httpGet", "exec", "tcpSocket"):
        raise InvalidInputError(
            f"'{action}' is not known", field=f"--{probe}-probe-action", expected="httpGet, exec or tcpSocket"
        )
    how, rules = _settings(options, f"{probe}-probe-action-option"), _settings(options, f"{probe}-probe-option")
    if unknown := [name for name in rules if name not in (*_NUMBERS, *_UNUSED)]:
        expected = f"one of {', '.join(_NUMBERS)}"
        raise InvalidInputError(f"'{unknown[0]}' is not known", field=f"--{probe}-probe-option", expected=expected)
    numbers = {field: _number(rules[name], probe) for name, field in _NUMBERS.items() if name in rules}
    program = ("sh", "-c", how.get("command", "true")) if action == "exec" else ()
    return Check(
        http=how.get("path", "/") if action == "httpGet" else "",
        exec=program,
        every_seconds=numbers.get("every_seconds", 10.0),  # Kubernetes' own
        timeout_seconds=numbers.get("timeout_seconds", 1.0),
        failures=int(numbers.get("failures", 3)),
    )


def _settings(options: Options, name: str) -> dict[str, str]:
    """Read ``NAME: VALUE`` or ``NAME=VALUE``."""
    found = {}
    for text in texts_of(options, name):
        place = min((text.index(mark) for mark in ":=" if mark in text), default=-1)
        if place < 1:
            raise InvalidInputError(f"'{text}' says nothing", field=f"--{name}", expected="'NAME: VALUE'")
        found[text[:place].strip()] = text[place + 1 :].strip()
    return found


def _number(text: str, probe: str) -> float:
    if not text.isdecimal():
        raise InvalidInputError(f"'{text}' is not a number", field=f"--{probe}-probe-option", expected="for example 3")
    return float(text)


_OF_PREDICTOR = {
    "min-replicas": "minReplicas",
    "max-replicas": "maxReplicas",
    "scale-target": "scaleTarget",
    "scale-metric": "scaleMetric",
    "container-concurrency": "containerConcurrency",
    "timeout": "timeout",
    "canary-traffic-percent": "canaryTrafficPercent",
}


def _inference_service(name: str, options: Options, command: Sequence[str], tenant: Tenant) -> dict[str, Any]:
    predictor: dict[str, Any] = {field: options[option] for option, field in _OF_PREDICTOR.items() if option in options}
    container = _container(options, _words(options, command))
    pod = _template(options, ()).get("pod_template", {}).get("spec", {})
    if pod:
        more = {key: value for key, value in pod["containers"][0].items() if key not in ("name", "command", "env")}
        container |= {**more, "env": [*container.get("env", ()), *pod["containers"][0].get("env", ())]}
        predictor |= {key: value for key, value in pod.items() if key != "containers"}
    if selector := pairs(texts_of(options, "selector"), "--selector"):
        predictor["nodeSelector"] = selector
    if tolerations := [toleration_of(text) for text in texts_of(options, "toleration")]:
        predictor["tolerations"] = tolerations
    if security := pairs(texts_of(options, "security-context"), "--security-context"):
        predictor["securityContext"] = {key: _user(key, value) for key, value in security.items()}
    if "model-format" in options:
        kind, _, version = str(options["model-format"]).partition(":")
        form = {"name": kind, **({"version": version} if version else {})}
        predictor["model"] = {"modelFormat": form, "storageUri": options.get("storage-uri"), **container}
        if "storage-uri" not in options:
            raise InvalidInputError("it is not said where the model is", field="--storage-uri", expected="s3://...")
    elif container.keys() & {"image", "command"}:
        predictor["containers"] = [{"name": _CONTAINER, **container}]
    else:
        raise InvalidInputError("nothing is served", field="--model-format", expected="a model's format, or --image")
    metadata = {"name": name, "namespace": tenant}
    marks = {field: pairs(texts_of(options, field[:-1]), f"--{field[:-1]}") for field in ("labels", "annotations")}
    body = {"metadata": {**metadata, **{key: value for key, value in marks.items() if value}}}
    return {"apiVersion": API_VERSION, "kind": KIND, **body, "spec": {"predictor": json.loads(json.dumps(predictor))}}


def _user(name: str, text: str) -> int:
    if not text.isdecimal():
        raise InvalidInputError(f"'{name}={text}' is not a number", field="--security-context", expected="NAME=NUMBER")
    return int(text)


def _container(options: Options, command: list[str]) -> dict[str, Any]:
    amounts = {"cpu": options.get("cpu"), "memory": options.get("memory"), "nvidia.com/gpu": options.get("gpus")}
    devices = pairs(texts_of(options, "device"), "--device")
    limits = {name: str(amount) for name, amount in {**amounts, **devices}.items() if amount}
    variables = [{"name": key, "value": str(value)} for key, value in pairs(texts_of(options, "env"), "--env").items()]
    fields: Mapping[str, Any] = {
        "image": options.get("image"),
        "command": command,
        "env": variables,
        "ports": [{"containerPort": options["port"]}] if options.get("port") else [],
        "resources": {"requests": limits, "limits": limits} if limits else {},
    }
    return {name: value for name, value in fields.items() if value}
