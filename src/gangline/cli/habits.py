"""What people type who come from kubectl, docker, sky, dstack, det, torchx, arena or ray, in our own words. Pure.

``translated`` turns a line that means one of our commands into that command; ``lesson`` says what to type instead of a
word, ``option_lesson`` instead of an option, that has no exact counterpart here. docs/habits.md is made from them.
"""

import re
from collections.abc import Sequence

ALIASES = {
    "run": "submit",
    "ps": "list",
    "ls": "list",
    "status": "get",
    "stop": "cancel",
    "kill": "cancel",
    "rm": "delete",
    "exec": "attach",
    "ssh": "attach",
}
"""Other names of commands; ``status`` without a job is ``list``."""

_FOREIGN_KINDS = ("tfjob", "pytorchjob", "mpijob", "jaxjob", "xgboostjob", "paddlejob", "trainjob")
_JOBS = frozenset({"job", "jobs", *_FOREIGN_KINDS, *(f"{kind}s" for kind in _FOREIGN_KINDS)})
_KINDS = {
    name: kind
    for kind in ("queue", "sweep", "pipeline", "service", "model", "store", "volume", "experiment", "secret")
    for name in (kind, f"{kind}s")
}
_NODES = frozenset({"node", "nodes", "no"})
_ABOUT_NOUNS = frozenset({"get", "describe", "delete", "edit", "wait", "label", "scale"})
_ABOUT_JOBS = frozenset(
    {"get", "describe", "delete", "logs", "wait", "cancel", "halt", "resume", "events", "metrics", "attach", "label"}
    | {"scale", "explain", "rerun", "top", "cp", "diff", "results", "checkpoints"}
)
_OF_JOBS = {
    "submit": "submit",
    "launch": "submit",
    "run": "submit",
    "list": "list",
    "ls": "list",
    "queue": "list",
    "get": "get",
    "status": "get",
    "describe": "describe",
    "logs": "logs",
    "stop": "cancel",
    "cancel": "cancel",
    "kill": "cancel",
    "delete": "delete",
    "rm": "delete",
    "wait": "wait",
}
"""What may follow ``job`` or ``jobs``, as with ray and sky."""
_VALUED = frozenset(
    {"-o", "--output", "-l", "--label", "--selector", "-n", "--namespace", "--tenant", "--sort-by"}
    | {"--phase", "--queue", "--limit"}
)
_BELOW = {
    ("top", "nodes"): "node",
    ("top", "no"): "node",
    ("top", "pods"): "job",
    ("top", "pod"): "job",
    ("top", "jobs"): "job",
    ("", "ls"): "list",
    ("", "rm"): "delete",
    ("", "inspect"): "describe",
}
"""Words below ``top``, and below any kind."""
_SLASHED = re.compile(rf"(?:{'|'.join(sorted(_JOBS))})(?:\.[a-z.]+)?/([^/]+)")
_TERMINAL = frozenset({"-it", "-ti", "-t", "--tty", "--stdin", "--interactive"})

_SAME_MEANING = {
    "submit": ("start", "launch", "train", "create", "new", "sbatch", "srun"),
    "rerun": ("retry", "repeat", "again", "clone", "fork"),
    "lineage": ("provenance", "origin"),
    "diff": ("compare",),
    "list": ("jobs", "squeue"),
    "get": ("show", "info"),
    "describe": ("inspect",),
    "logs": ("log", "tail", "output"),
    "attach": ("enter", "connect"),
    "cancel": ("abort", "terminate", "end", "scancel"),
    "delete": ("remove", "del", "down", "destroy"),
    "halt": ("pause", "suspend", "preempt"),
    "resume": ("continue", "restart", "unpause"),
    "scale": ("resize",),
    "explain": ("why", "reason"),
    "events": ("history", "journal"),
    "top": ("nodes", "node", "stats", "gpus", "show-gpus", "agent", "slot", "infra", "sinfo"),
    "cost": ("cost-report", "bill", "price"),
    "what-if": ("offer", "plan", "predict-start"),
    "sweep": ("grid", "tune", "search", "trials", "hp-search"),
    "experiment": ("katib",),
    "inferenceservice": ("kserve", "isvc"),
    "dashboard": ("ui", "web", "console"),
    "pipeline": ("workflow", "dag", "kfp", "flow"),
    "serve": ("deploy", "up"),
    "server": ("daemon",),
    "install": ("upgrade",),
    "config": ("settings", "set", "configure"),
    "doctor": ("check", "diagnose", "diagnose-me"),
    "init": ("template", "example", "builtins", "scaffold"),
    "secret": ("secrets", "credentials"),
    "apply": ("sync",),
    "label": ("annotate", "tag"),
    "version": ("about",),
}
"""What other tools call our commands: a word with the same meaning is a better guess than one with the same letters."""

_LESSONS = {
    "edit": "a job that was submitted is not edited: 'gangline rerun JOB --set PATH=VALUE' submits it changed, "
    "'gangline label' and 'gangline scale' change what can change",
    "build": "there is nothing to build: the code directory travels with the job (--code), and --image names any image",
    "push": "there is nothing to push: the code directory travels with the job (--code)",
    "pull": "there is nothing to pull: 'gangline cp JOB:PATH .' brings the files of a job",
    "images": "Gangline keeps no images; --image names one of your registry",
    "autostop": "jobs give their machines back when they end; --deadline ends one, --ttl deletes it later",
    "port-forward": "'gangline attach JOB -- COMMAND' runs where the replica runs; "
    "'gangline serve' gives a program an address",
    "rsync": "'gangline cp' copies files from a job and to one",
    "cordon": "nodes belong to Kubernetes: kubectl cordon NODE; jobs there go on, and none are placed there",
    "drain": "nodes belong to Kubernetes: kubectl drain NODE; its jobs are halted and go on elsewhere",
    "fleet": "machines are nodes: 'gangline top node' shows them",
    "rollout": "'gangline service rollout NAME' shows the revisions of a service",
    "patch": "'gangline label JOB KEY=VALUE' changes labels, 'gangline scale JOB worker=8' the number of replicas",
    "timeline": "'gangline events JOB' says what happened when, 'gangline metrics JOB --plot' draws its numbers",
    "memory": "'gangline top job' shows what running jobs use",
    "summary": "'gangline list' shows the jobs, 'gangline top node' the machines",
    "trial": "'gangline sweep get NAME' shows the trials of a sweep",
    "checkpoint": "'gangline checkpoints JOB' lists the checkpoints of a job",
    "checkout": "'gangline cp JOB:PATH .' brings the files of a job",
}
"""What to do instead of a word that no single command answers."""

_OPTION_LESSONS = {
    ("submit", "-d"): "jobs always run in the background; --follow stays with one",
    ("submit", "--detach"): "jobs always run in the background; --follow stays with one",
    ("submit", "--rm"): "'--ttl 1h' deletes the job an hour after its end",
    ("submit", "-it"): "'gangline attach JOB' opens a shell in a job that runs",
    ("submit", "-v"): "'gangline volume create NAME' makes a volume, and 'volumes' in a job file mounts it; "
    "the code directory travels by itself (--code)",
    ("submit", "--volume"): "'gangline volume create NAME' makes a volume, and 'volumes' in a job file mounts it",
    ("submit", "-p"): "'gangline serve' gives a program an address",
    ("submit", "--working-dir"): "--code DIRECTORY ships a directory, and the job runs in it",
    ("submit", "--num-nodes"): "--workers COUNT is how many replicas start together",
    ("submit", "--nnodes"): "--workers COUNT is how many replicas start together",
    ("submit", "--use-spot"): "any job may be preempted and goes on from its checkpoint; 'policy.preemptible' says so",
    ("submit", "--cluster"): "--context NAME before the command chooses the cluster",
    ("submit", "-c"): "--context NAME before the command chooses the cluster",
    ("submit", "-s"): "--context NAME before the command chooses where it runs; without it, this machine",
    ("submit", "--scheduler"): "--context NAME before the command chooses where it runs; without it, this machine",
    ("submit", "--restart"): "'--max-attempts 3' tries a failed job again",
    ("submit", "-n"): "--tenant NAME submits for a tenant, which is a namespace on a cluster",
    ("submit", "--namespace"): "--tenant NAME submits for a tenant, which is a namespace on a cluster",
    ("logs", "-p"): "'--attempt N' shows an earlier attempt",
    ("logs", "--previous"): "'--attempt N' shows an earlier attempt",
    ("logs", "-c"): "'--role ROLE' or '-i REPLICA' chooses a replica",
    ("logs", "--container"): "'--role ROLE' or '-i REPLICA' chooses a replica",
    ("attach", "-c"): "'-i REPLICA' chooses a replica",
    ("delete", "--force"): "a job that does not stop is killed after 'policy.grace'; --no-wait does not wait for it",
    ("delete", "--grace-period"): "'policy.grace' of the job says how long it may take to stop",
    ("delete", "-f"): "name the jobs, or choose them with -l KEY=VALUE",
    ("list", "--field-selector"): "--phase, --queue and -l choose jobs",
    ("list", "-a"): "all jobs are shown, newest first; --phase chooses",
    ("list", "-q"): "'-o name' prints names alone",
}
"""What to say of an option that people know from elsewhere."""


def translated(words: Sequence[str]) -> list[str]:
    """Return the line in our own words; one that is not known stays as it is."""
    if not words:
        return []
    first, rest = words[0], list(words[1:])
    if first in ("job", "jobs") and rest and rest[0] in _OF_JOBS:
        first, rest = _OF_JOBS[rest[0]], rest[1:]
        first = "list" if first == "get" and not _positional(rest) else first
    elif first == "status":
        first = "get" if _positional(rest) else "list"
    elif first in ("exec", "ssh"):
        first, rest = "attach", _without_terminal(rest)
    first = ALIASES.get(first, first)
    if first in _ABOUT_NOUNS and rest and not rest[0].startswith("-"):
        first, rest = _without_noun(first, rest)
    if rest and (first == "top" or first in _KINDS.values()):
        rest[0] = _BELOW.get((first if first == "top" else "", rest[0]), rest[0])
    if first in _ABOUT_JOBS:
        end = rest.index("--") if "--" in rest else len(rest)
        rest[:end] = [_SLASHED.sub(r"\1", word) if _SLASHED.fullmatch(word) else word for word in rest[:end]]
    return [first, *rest]


def same_meaning(word: str) -> str | None:
    """Return the command that other tools call by this word."""
    return next((command for command, others in _SAME_MEANING.items() if word.lower() in others), None)


def lesson(word: str) -> str | None:
    """Return what to do instead of a word that does not name a command."""
    return _LESSONS.get(word)


def option_lesson(command: str, option: str) -> str | None:
    """Return what to do instead of an option that a command does not have."""
    return _OPTION_LESSONS.get((command, option))


def _without_noun(verb: str, rest: list[str]) -> tuple[str, list[str]]:
    """Understand kubectl's order: a verb, what kind of thing, and its name."""
    noun, names = rest[0], rest[1:]
    if noun in _JOBS:
        return ("list" if verb == "get" and not _positional(names) else verb), names
    if noun in _NODES and verb in ("get", "describe"):
        return "top", ["node", *(["-d"] if verb == "describe" else []), *(name for name in names if name == "-o")]
    if noun in _KINDS and (names or verb == "get"):
        return _KINDS[noun], ["list" if verb == "get" and not _positional(names) else verb, *names]
    return verb, rest


def _positional(words: Sequence[str]) -> bool:
    """Whether a line names a thing: a word that is neither an option nor follows one that takes a value."""
    before = ""
    for word in words:
        if not word.startswith("-") and before not in _VALUED:
            return True
        before = word
    return False


def _without_terminal(words: Sequence[str]) -> list[str]:
    end = words.index("--") if "--" in words else len(words)
    return [word for place, word in enumerate(words) if place >= end or word not in _TERMINAL]
