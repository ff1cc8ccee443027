"""The flags of ``arena serve`` as one table, beside that of ``submit``."""

from enum import StrEnum

from gangline.dialects.arena.options import Option, Refused, Takes


class ServeVerb(StrEnum):
    """What follows ``serve``."""

    TENSORFLOW = "tensorflow"
    KSERVE = "kserve"
    CUSTOM = "custom"


SERVE_NAMES = {
    "tensorflow": ServeVerb.TENSORFLOW,
    "tf": ServeVerb.TENSORFLOW,
    "kserve": ServeVerb.KSERVE,
    "custom": ServeVerb.CUSTOM,
}
REFUSED_SERVE_VERBS = {
    "triton": "'gangline serve model://NAME': the model server speaks Triton's protocol",
    "tensorrt": "'gangline serve custom' with the command of its image",
    "seldon": "'gangline serve kserve'",
    "kfserving": "'gangline serve kserve'",
    "distributed": "a file of kind Service whose job has several roles",
    "traffic-router-split": "rollout.steps of a file of kind Service, and 'gangline service promote'",
    "update": "'gangline service edit NAME'",
}

_TF, _KSERVE, _CUSTOM = ((verb,) for verb in ServeVerb)
_PROGRAMS = (*_TF, *_CUSTOM)
_ALL = tuple(ServeVerb)
_PROBES = tuple(
    Option(name=f"{probe}-probe-{what}", help=f"{probe} check: {text}", takes=takes, verbs=_CUSTOM)
    for probe in ("liveness", "readiness", "startup")
    for what, text, takes in (
        ("action", "httpGet, exec or tcpSocket", Takes.TEXT),
        ("action-option", "'path: /healthz' or 'command: cat /tmp/healthy'", Takes.MANY),
        ("option", "'periodSeconds: 3', timeoutSeconds or failureThreshold", Takes.MANY),
    )
)

SERVE_OPTIONS: tuple[Option, ...] = (
    Option(name="name", help="name of the service", old_names=("servingName",), verbs=_ALL),
    Option(
        name="version", help="added to the name: each version is a service", old_names=("servingVersion",), verbs=_ALL
    ),
    Option(name="image", help="image of the replicas", verbs=_ALL),
    Option(
        name="image-pull-policy", help="when pods pull their image", old_names=("imagePullPolicy",), verbs=_ALL
    ),
    Option(name="image-pull-secret", help="secret of a private registry", takes=Takes.MANY, verbs=_ALL),
    Option(name="gpus", help="GPUs of each replica", takes=Takes.WHOLE, verbs=_ALL),
    Option(name="device", help="other devices of each replica, NAME=COUNT", takes=Takes.MANY, verbs=_ALL),
    Option(name="cpu", help="CPUs of each replica", verbs=_ALL),
    Option(name="memory", help="memory of each replica", verbs=_ALL),
    Option(name="share-memory", help="size of /dev/shm in every pod", verbs=_ALL),
    Option(name="replicas", help="number of replicas", takes=Takes.WHOLE, verbs=_PROGRAMS),
    Option(name="env", help="variable of every replica, NAME=VALUE", takes=Takes.MANY, short="e", verbs=_ALL),
    Option(
        name="env-from-secret", help="variable from a Secret's key of that name, NAME=SECRET", takes=Takes.MANY,
        verbs=_ALL,
    ),
    Option(name="data", help="volume claim to mount, CLAIM:PATH", takes=Takes.MANY, short="d", verbs=_ALL),
    Option(name="data-dir", help="directory of the node to mount, DIRECTORY:PATH", takes=Takes.MANY, verbs=_ALL),
    Option(name="temp-dir", help="empty directory to mount, NAME:PATH", takes=Takes.MANY, verbs=_ALL),
    Option(name="annotation", help="annotation of every pod, KEY=VALUE", takes=Takes.MANY, short="a", verbs=_ALL),
    Option(name="label", help="label of every replica, KEY=VALUE", takes=Takes.MANY, short="l", verbs=_ALL),
    Option(
        name="toleration", help="taint to tolerate: KEY[=VALUE][:EFFECT][,OPERATOR] or all", takes=Takes.MANY,
        verbs=_ALL,
    ),
    Option(name="selector", help="node label of every replica, KEY=VALUE", takes=Takes.MANY, verbs=_ALL),
    Option(name="shell", help="shell that runs a command given as one string", verbs=_ALL),
    Option(name="command", help="command, instead of the words at the end", verbs=(*_KSERVE, *_CUSTOM)),
    Option(
        name="enable-istio", help="accepted; requests come through the router", takes=Takes.FLAG,
        old_names=("enableIstio",), verbs=_ALL,
    ),
    Option(name="model-name", help="name of the model in the paths of requests", old_names=("modelName",), verbs=_TF),
    Option(
        name="model-path", help="directory of the model's versions, in a volume", old_names=("modelPath",), verbs=_TF
    ),
    Option(
        name="restful-port", help="accepted; a replica listens at $PORT", takes=Takes.WHOLE, old_names=("restfulPort",),
        verbs=_TF,
    ),
    Option(name="restful-port", help="port of each pod for requests", takes=Takes.WHOLE, verbs=_CUSTOM),
    Option(name="port", help="port of each pod, for gRPC if --restful-port is not given", takes=Takes.WHOLE,
           verbs=_CUSTOM),
    Option(name="port", help="port of the container", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="metrics-port", help="accepted; metrics are read from the pods", takes=Takes.WHOLE,
           verbs=(*_KSERVE, *_CUSTOM)),
    Option(name="max-surge", help="how many replicas more there may be during a rollout", takes=Takes.WHOLE,
           verbs=_CUSTOM),
    Option(name="max-unavailable", help="accepted; there are never fewer ready replicas", verbs=_CUSTOM),
    *_PROBES,
    Option(name="model-format", help="format of the model, NAME or NAME:VERSION", verbs=_KSERVE),
    Option(name="storage-uri", help="where the model is", verbs=_KSERVE),
    Option(name="runtime", help="accepted; the model server loads every format", verbs=_KSERVE),
    Option(name="runtime-version", help="accepted; the model server loads every format", verbs=_KSERVE),
    Option(name="protocol-version", help="accepted; the model server speaks v1, v2 and gRPC", verbs=_KSERVE),
    Option(name="min-replicas", help="fewest replicas; 0 lets the service sleep", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="max-replicas", help="most replicas", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="scale-target", help="how much of the metric one replica should have", takes=Takes.WHOLE,
           verbs=_KSERVE),
    Option(name="scale-metric", help="concurrency, rps or cpu", verbs=_KSERVE),
    Option(name="container-concurrency", help="requests at once of each replica", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="timeout", help="seconds that an answer may take to begin", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="canary-traffic-percent", help="share of the newest revision", takes=Takes.WHOLE, verbs=_KSERVE),
    Option(name="security-context", help="runAsUser, runAsGroup or fsGroup of the pod, NAME=NUMBER",
           takes=Takes.MANY, verbs=_KSERVE),
    Option(name="enable-prometheus", help="accepted; metrics are always there", takes=Takes.FLAG, verbs=_KSERVE),
)  # fmt: skip

_OUTSIDE = "an Ingress, a Gateway or a load balancer in front of the router (docs/serving.md)"
_SHARES = "a part of a GPU in a file of kind Service: resources.gpu 0.5"
_CONFIGURED = "nothing: every version in the directory is served, and /versions/N in a path asks for one"

SERVE_REFUSED: tuple[Refused, ...] = (
    Refused(name="expose-service", instead=_OUTSIDE, takes=Takes.FLAG, verbs=_ALL),
    Refused(name="exposeService", instead=_OUTSIDE, takes=Takes.FLAG, verbs=_ALL),
    Refused(name="gpumemory", instead=_SHARES, verbs=_ALL),
    Refused(name="gpucore", instead=_SHARES, verbs=_ALL),
    Refused(name="data-subpath-expr", instead="--data with the directory itself", takes=Takes.MANY, verbs=_ALL),
    Refused(name="temp-dir-subpath-expr", instead="--temp-dir with the directory itself", takes=Takes.MANY, verbs=_ALL),
    Refused(name="config-file", instead="--data with a volume that has the file", takes=Takes.MANY, verbs=_ALL),
    Refused(name="command", instead="'gangline serve custom', which runs any command", verbs=_TF),
    Refused(name="model-name", instead="'gangline model register NAME DIRECTORY'", verbs=(*_KSERVE, *_CUSTOM)),
    Refused(name="model-version", instead="'gangline model register NAME DIRECTORY'", verbs=_ALL),
    Refused(name="port", instead="nothing: gRPC comes to the same port as other requests", verbs=_TF),
    Refused(name="version-policy", instead=_CONFIGURED, verbs=_TF),
    Refused(name="versionPolicy", instead=_CONFIGURED, verbs=_TF),
    Refused(name="model-config-file", instead="--model-name and --model-path", verbs=_TF),
    Refused(name="modelConfigFile", instead="--model-name and --model-path", verbs=_TF),
    Refused(name="monitoring-config-file", instead="nothing: replicas have their metrics at /metrics", verbs=_TF),
    Refused(name="replicas", instead="--min-replicas and --max-replicas", verbs=_KSERVE),
    *(
        Refused(name=f"affinity-{what}", instead="apart of a file of kind Service: no two on one node", verbs=_KSERVE)
        for what in ("policy", "constraint")
    ),
)


def serve_options_of(verb: ServeVerb) -> tuple[Option, ...]:
    """The options that a verb knows."""
    return tuple(option for option in SERVE_OPTIONS if verb in option.verbs)
