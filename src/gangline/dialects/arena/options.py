"""Arena's flags as one table: the dashed name, its camel-case name of old, what it takes and which verbs know it.

The command line binds it to its parser; ``job_from_options`` takes the parsed values by dashed name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """What follows ``submit``. Early Arena said ``--mode`` instead."""

    TENSORFLOW = "tf"
    PYTORCH = "pytorch"
    MPI = "mpi"
    HOROVOD = "horovod"


MODES = {"tensorflow": Verb.TENSORFLOW, "horovod": Verb.HOROVOD}
"""The values of early Arena's ``--mode``."""

VERB_NAMES = {
    "tf": Verb.TENSORFLOW,
    "tfjob": Verb.TENSORFLOW,
    "tensorflow": Verb.TENSORFLOW,
    "pytorch": Verb.PYTORCH,
    "pytorchjob": Verb.PYTORCH,
    "mpi": Verb.MPI,
    "mpijob": Verb.MPI,
    "horovod": Verb.HOROVOD,
    "horovodjob": Verb.HOROVOD,
}


Options = Mapping[str, object]
"""Parsed values by dashed name: text, whole number, True, or a sequence of texts. What is not given is absent."""


class Takes(StrEnum):
    """What an option takes on the command line."""

    TEXT = "text"
    WHOLE = "whole number"
    FLAG = "nothing"
    MANY = "text, any number of times"


_ALL = tuple(Verb)
_TF = (Verb.TENSORFLOW,)
_FLAT = (Verb.PYTORCH, Verb.MPI, Verb.HOROVOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. ``old_names`` are accepted too; ``help`` is one line without a full stop."""

    name: str
    help: str
    takes: Takes = Takes.TEXT
    short: str | None = None
    old_names: tuple[str, ...] = ()
    verbs: tuple[StrEnum, ...] = _ALL


def _role_options(role: str, title: str, *, old: str | None = None) -> tuple[Option, ...]:
    prefix = old or role
    amounts = tuple(
        Option(
            name=f"{role}-{what}",
            help=f"{what} of {title}",
            old_names=(f"{prefix}{what.capitalize()}",),
            verbs=_TF,
        )
        for what in ("cpu", "memory")
    )
    limits = tuple(
        Option(name=f"{role}-{what}-limit", help=f"{what} that a pod of {title} may not exceed", verbs=_TF)
        for what in ("cpu", "memory")
    )
    return (
        *amounts,
        *limits,
        Option(name=f"{role}-image", help=f"image of {title}", old_names=(f"{prefix}Image",), verbs=_TF),
        Option(name=f"{role}-port", help=f"port of {title}", takes=Takes.WHOLE, old_names=(f"{role}Port",), verbs=_TF),
        Option(name=f"{role}-selector", help=f"node label of {title}, KEY=VALUE", takes=Takes.MANY, verbs=_TF),
    )


OPTIONS: tuple[Option, ...] = (
    Option(name="name", help="name of the job"),
    Option(name="image", help="image of the replicas"),
    Option(name="gpus", help="GPUs of each worker", takes=Takes.WHOLE),
    Option(name="workers", help="number of workers", takes=Takes.WHOLE),
    Option(name="cpu", help="CPUs of each worker", verbs=_FLAT, old_names=("workerCpu",)),
    Option(name="memory", help="memory of each worker", verbs=_FLAT, old_names=("workerMemory",)),
    Option(name="device", help="other devices of each worker, NAME=COUNT", takes=Takes.MANY),
    Option(name="ps", help="number of parameter servers", takes=Takes.WHOLE, verbs=_TF),
    Option(name="ps-gpus", help="GPUs of each parameter server", takes=Takes.WHOLE, verbs=_TF),
    Option(name="chief", help="run a chief", takes=Takes.FLAG, verbs=_TF),
    Option(name="evaluator", help="run an evaluator", takes=Takes.FLAG, verbs=_TF),
    *_role_options("worker", "each worker"),
    *_role_options("ps", "each parameter server"),
    *_role_options("chief", "the chief", old="Chief"),
    *_role_options("evaluator", "the evaluator"),
    Option(name="worker-image", help="image of each worker", old_names=("workerImage",), verbs=_FLAT),
    Option(name="worker-port", help="port of each worker", takes=Takes.WHOLE, old_names=("workerPort",), verbs=_FLAT),
    Option(
        name="ssh-port", help="port of the workers' SSH server", takes=Takes.WHOLE, old_names=("sshPort",), verbs=_FLAT
    ),
    Option(name="env", help="variable of every replica, NAME=VALUE", takes=Takes.MANY, short="e"),
    Option(name="data", help="volume claim to mount, CLAIM:PATH", takes=Takes.MANY, short="d"),
    Option(
        name="data-dir",
        help="directory of the node to mount at the same path",
        takes=Takes.MANY,
        old_names=("dataDir",),
    ),
    Option(name="working-dir", help="directory the command runs in", old_names=("workingDir",)),
    Option(name="sync-mode", help="how the code is fetched: git or rsync", old_names=("syncMode",)),
    Option(name="sync-source", help="where the code is fetched from", old_names=("syncSource",)),
    Option(name="sync-image", help="accepted; fetching needs no image here", old_names=("syncImage",)),
    Option(name="tensorboard", help="run a TensorBoard beside the job", takes=Takes.FLAG),
    Option(name="tensorboard-image", help="image of the TensorBoard", old_names=("tensorboardImage",)),
    Option(name="logdir", help="directory the TensorBoard reads"),
    Option(name="priority", help="priority: a word or a class name", short="p"),
    Option(name="gang", help="accepted; every job is a gang", takes=Takes.FLAG),
    Option(name="queue", help="queue the job waits in"),
    Option(name="selector", help="node label of every replica, KEY=VALUE", takes=Takes.MANY),
    Option(name="toleration", help="taint to tolerate: KEY[=VALUE][:EFFECT][,OPERATOR] or all", takes=Takes.MANY),
    Option(name="label", help="label of the job, KEY=VALUE", takes=Takes.MANY, short="l"),
    Option(
        name="clean-task-policy",
        help="what a finished job removes: All, Running or None",
        old_names=("cleanTaskPolicy",),
    ),
    Option(name="success-policy", help="who must succeed: ChiefWorker or AllWorkers", verbs=_TF),
    Option(name="running-timeout", help="longest time to run, for example 2h"),
    Option(name="ttl-after-finished", help="how long a finished job is kept"),
    Option(name="retry", help="how often the job is tried again", takes=Takes.WHOLE),
    Option(name="shell", help="shell that runs a command given as one string"),
    Option(name="nproc-per-node", help="processes of each worker", verbs=(Verb.PYTORCH,)),
    Option(name="rdma", help="ask for an RDMA device", takes=Takes.FLAG),
    Option(name="annotation", help="annotation of every pod, KEY=VALUE", takes=Takes.MANY, short="a"),
    Option(name="image-pull-secret", help="secret of a private registry", takes=Takes.MANY),
    Option(name="image-pull-policy", help="when pods pull their image: Always, IfNotPresent or Never"),
    Option(name="share-memory", help="size of /dev/shm in every pod", verbs=(Verb.TENSORFLOW, Verb.PYTORCH)),
    Option(name="host-network", help="pods use the node's network", takes=Takes.FLAG, old_names=("hostNetwork",)),
    Option(name="host-ipc", help="pods share the node's IPC namespace", takes=Takes.FLAG, old_names=("hostIPC",)),
    Option(name="host-pid", help="pods see the node's processes", takes=Takes.FLAG, old_names=("hostPID",)),
    Option(name="role-sequence", help="accepted; all roles start together", verbs=_TF),
    Option(
        name="mounts-on-launcher",
        help="accepted; the launcher mounts what workers do",
        takes=Takes.FLAG,
        verbs=(Verb.MPI,),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A flag of Arena's that nothing here corresponds to, and what to use instead."""

    name: str
    instead: str
    takes: Takes = Takes.TEXT
    verbs: tuple[StrEnum, ...] = _ALL


_AFFINITY = "placement.prefer (pack or spread) or placement.apart in a job file"
_MODEL = "'gangline model register NAME DIRECTORY' when the job has ended"

REFUSED: tuple[Refused, ...] = (
    Refused(name="scheduler", instead="nothing: Gangline places every job itself"),
    Refused(
        name="config-file",
        instead="a file in the code directory, which travels with the job, or --data for a volume",
        takes=Takes.MANY,
    ),
    Refused(name="model-name", instead=_MODEL),
    Refused(name="model-source", instead=_MODEL),
    *(
        Refused(name=f"{role}-affinity-{what}", instead=_AFFINITY, verbs=_TF)
        for role in ("worker", "ps")
        for what in ("policy", "constraint")
    ),
    Refused(
        name="starting-timeout",
        instead="'gangline wait JOB --for PROCESSING --timeout 10m', then 'gangline cancel JOB'",
        verbs=_TF,
    ),
    Refused(
        name="gputopology",
        instead="placement.within in a job file, which keeps a gang within one domain",
        takes=Takes.FLAG,
        verbs=(Verb.MPI,),
    ),
)


def options_of(verb: Verb) -> tuple[Option, ...]:
    """The options that a verb knows."""
    return tuple(option for option in OPTIONS if verb in option.verbs)
