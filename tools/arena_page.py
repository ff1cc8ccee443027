"""Writes docs/arena.md: every flag of ``arena submit`` and ``serve`` of version 0.15, and what Gangline makes of it.

    python -m tools.arena_page

Only the names of Arena's flags are written by hand. What becomes of each is asked of the real command line, which takes
it, and says what it means, or refuses it. ``tests/cli/test_arena.py`` holds the page to it.
"""

from pathlib import Path

import click

from gangline.cli.commands.arena_serve import arena_serve_command
from gangline.cli.commands.arena_submit import arena_command
from gangline.dialects.arena import REFUSED_VERBS, Verb
from gangline.dialects.arena.serve_options import REFUSED_SERVE_VERBS, ServeVerb
from gangline.errors import InvalidInputError

PAGE = Path(__file__).parents[1] / "docs" / "arena.md"


def _words(text: str) -> list[str]:
    return text.split()


_SHARED = _words(
    "name image gpus device workers retry workingDir working-dir env data dataDir data-dir annotation "
    "label rdma gang priority queue toleration selector config-file image-pull-secret image-pull-policy "
    "shell scheduler hostNetwork hostIPC hostPID model-name model-source syncMode sync-mode syncSource "
    "sync-source syncImage sync-image tensorboard tensorboardImage tensorboard-image logdir"
)
FLAGS: dict[str, list[str]] = {
    "tf": _words(
        "workerImage worker-image psImage ps-image ps psPort ps-port workerPort worker-port workerCpu worker-"
        "cpu worker-cpu-limit workerMemory worker-memory worker-memory-limit worker-affinity-policy worker-"
        "affinity-constraint psCpu ps-cpu ps-cpu-limit ps-gpus psMemory ps-memory ps-memory-limit ps-"
        "affinity-policy ps-affinity-constraint success-policy cleanTaskPolicy clean-task-policy running-"
        "timeout starting-timeout ttl-after-finished chief evaluator ChiefCpu chief-cpu chief-cpu-limit "
        "ChiefMemory chief-memory chief-memory-limit evaluatorCpu evaluator-cpu evaluator-cpu-limit "
        "evaluatorMemory evaluator-memory evaluator-memory-limit chiefPort chief-port worker-selector chief-"
        "selector evaluator-selector ps-selector role-sequence share-memory"
    ),
    "pytorch": _words("clean-task-policy cpu memory running-timeout ttl-after-finished share-memory nproc-per-node"),
    "mpi": _words("cpu memory gputopology mounts-on-launcher clean-task-policy"),
    "horovod": _words("ssh-port cpu memory"),
    "et": _words(
        "cpu memory max-workers min-workers spot-instance max-wait-time launcher-selector job-restart-policy "
        "worker-restart-policy job-backoff-limit ssh-secret launcher-annotation worker-annotation"
    ),
    "deepspeed": _words(
        "cpu memory launcher-selector job-restart-policy job-backoff-limit ssh-secret launcher-annotation "
        "worker-annotation"
    ),
    "ray": _words(
        "shutdown-after-finished ttl-after-finished active-deadline-seconds suspend share-memory ray-version "
        "pre-stop-command enable-autoscaling autoscaler-cpu autoscaler-memory autoscaler-image autoscaler-"
        "image-pull-policy autoscaler-idle-timeout-seconds autoscaler-upscaling-mode head-image head-cpu "
        "head-memory head-gpu head-service-type worker-image worker-cpu worker-memory worker-gpu worker-"
        "replicas worker-min-replicas worker-max-replicas worker-num-of-hosts"
    ),
}
"""What each verb has besides the flags that all share; names of old included."""

_SHARED_SERVE = _words(
    "name servingName version servingVersion image imagePullPolicy image-pull-policy image-pull-secret gpus device "
    "gpumemory gpucore cpu memory share-memory env env-from-secret enableIstio enable-istio exposeService "
    "expose-service data data-subpath-expr data-dir temp-dir temp-dir-subpath-expr annotation label toleration "
    "selector config-file shell model-version"
)
SERVE_FLAGS: dict[str, list[str]] = {
    "tensorflow": _words(
        "replicas command port restfulPort restful-port modelName model-name modelPath model-path modelConfigFile "
        "model-config-file monitoring-config-file versionPolicy version-policy"
    ),
    "kserve": _words(
        "replicas command model-name model-format runtime storage-uri port runtime-version protocol-version "
        "min-replicas max-replicas scale-target scale-metric container-concurrency timeout canary-traffic-percent "
        "security-context affinity-policy affinity-constraint enable-prometheus metrics-port"
    ),
    "custom": _words(
        "replicas command model-name port restful-port metrics-port max-surge max-unavailable liveness-probe-action "
        "liveness-probe-action-option liveness-probe-option readiness-probe-action readiness-probe-action-option "
        "readiness-probe-option startup-probe-action startup-probe-action-option startup-probe-option"
    ),
}

_HEAD = """# Arena's flags, one by one

`gangline submit tf|pytorch|mpi|horovod` and `gangline serve tensorflow|kserve|custom` take the flags of Arena 0.15
([more about it](kubeflow.md#arena)). Each is honoured, or refused with what to use instead, before anything is sent.
`python -m tools.arena_page` makes this page by asking the command line itself, and a test holds it to that.

"""


def answer(verb: Verb | ServeVerb, flag: str) -> tuple[bool, str]:
    """Return whether the command line takes a flag, and what it says of it."""
    command = arena_command(verb) if isinstance(verb, Verb) else arena_serve_command(verb)
    found = next((each for each in command.params if f"--{flag}" in each.opts), None)
    if not isinstance(found, click.Option):
        raise LookupError(f"{command.name} does not answer --{flag}")
    if not found.hidden:
        return True, str(found.help)
    try:
        command.make_context(str(command.name), [f"--{flag}", *(() if found.is_flag else ("x",)), "true"])
    except InvalidInputError as error:
        return False, str(error.expected)
    raise LookupError(f"{command.name} hides --{flag} and takes it")


def page() -> str:
    """Write the whole page."""
    parts = [_HEAD, "## Every verb\n\n", _table(Verb.PYTORCH, _SHARED)]
    for verb in Verb:
        parts += [f"\n## {verb}\n\n", _table(verb, FLAGS[verb])]
    for refused in REFUSED_VERBS:
        parts.append(
            f"\n## {refused.name}\n\n`arena submit {refused.name}` is refused. Use {_quoted(refused.instead)}. The "
            "flags that every verb has mean there what the first table says.\n\n| Flag | Use instead |\n|---|---|\n"
        )
        parts += [f"| `--{flag}` | {_quoted(refused.flags[flag])} |\n" for flag in FLAGS[refused.name]]
    parts += ["\n## serve\n\nEvery verb of `serve` has these:\n\n", _table(ServeVerb.CUSTOM, _SHARED_SERVE)]
    for each in ServeVerb:
        parts += [f"\n### serve {each}\n\n", _table(each, SERVE_FLAGS[each])]
    parts.append("\nOther verbs are refused:\n\n| Verb | Use instead |\n|---|---|\n")
    parts += [f"| `arena serve {name}` | {_quoted(instead)} |\n" for name, instead in REFUSED_SERVE_VERBS.items()]
    return "".join(parts)


def _table(verb: Verb | ServeVerb, flags: list[str]) -> str:
    rows = ["| Flag | Gangline |\n|---|---|\n"]
    for flag in flags:
        taken, text = answer(verb, flag)
        rows.append(f"| `--{flag}` | {text if taken else f'refused; use {_quoted(text)}'} |\n")
    return "".join(rows)


def _quoted(text: str) -> str:
    """Write commands in backquotes, as pages do."""
    return f"`{text}`" if text.startswith("--") else text.replace("'", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
