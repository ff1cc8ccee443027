"""What ``kubectl explain`` says of every field of our custom resources, and how it gets into their schemas.

What docs/job-file.md says of a field of the job file is said here in the same words; a test compares the two.
A path names a field from the object's root; ``*`` stands for any name, or for an item of a list.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]
Texts = Mapping[str, str]

_MOVES: Texts = {
    "from": "Where a move copies from: a path or an address such as s3://bucket/folder.",
    "to": "Where it copies to.",
    "store": "The store whose credentials a move uses.",
    "include": "Patterns of the paths below a folder that are moved; all without any.",
    "exclude": "Patterns of the paths below a folder that are not moved.",
    "unpack": "Whether the source is an archive whose content is moved.",
}
_TOLERATION: Texts = {
    "key": "The taint's key; every taint if it is left out and the operator is Exists.",
    "operator": "Equal, or Exists, which leaves the value open.",
    "value": "The taint's value.",
    "effect": "NoSchedule, PreferNoSchedule or NoExecute; every effect if it is left out.",
}
_CONDITION: Texts = {
    "type": "What is said to hold.",
    "status": "True, False or Unknown.",
    "reason": "Why, in one word.",
    "message": "Why, for a person to read.",
    "lastTransitionTime": "When the status changed last.",
    "lastUpdateTime": "When the condition was written last.",
}

JOB: Texts = {
    "spec": "What the job does.",
    "spec.queue": "The queue the job waits in. Default: default.",
    "spec.priority": "low (25), normal (50), high (75), critical (100), or a number from 0 to 1000. Default: normal.",
    "spec.origin": "The format a translated job came from; written by Gangline.",
    "spec.manifest": "That job as its user wrote it; written by Gangline.",
    "spec.framework": "What the replicas are told, so that they find each other.",
    "spec.processes": (
        "How many processes the launcher starts in each replica, of pytorch (a number, or what torchrun counts: "
        "auto, gpu, cpu) and mpi (ranks per worker). Default: 1."
    ),
    "spec.image": "Container image; the local engine runs commands on the machine itself and ignores it.",
    "spec.code": "A directory that is shipped with the job and becomes the working directory.",
    "spec.env": (
        "Variables of every replica; numbers become text, booleans must be quoted; {secret: NAME/KEY} instead of a "
        "value is a secret."
    ),
    "spec.roles": "The roles, by name.",
    "spec.data": "What is copied in and out.",
    "spec.policy": "Retries, limits, cleaning up.",
    "spec.placement": "Where replicas run.",
    "spec.checkpoints": "Where checkpoints are also written, so that another machine finds them.",
    "spec.checkpoints.to": "A path or an address; $JOB_NAME is replaced.",
    "spec.checkpoints.store": "The store whose keys are used.",
    "spec.checkpoints.keep": "How many stay. Default: 3.",
    "spec.checkpoints.every": "How often Checkpoints.due() says that one is due.",
    "spec.metrics": "Files in which the program writes numbers in a form of its own.",
    "spec.metrics.*.from": "The file or folder; $RESULT_DIR and its kin are replaced.",
    "spec.metrics.*.format": "tensorboard, pattern or records (JSON lines of FfDL's evaluation metrics).",
    "spec.metrics.*.pattern": "A regular expression with named groups.",
    "spec.metrics.*.values": "Metrics by the groups that hold them.",
    "spec.metrics.*.step": "The group that holds the step.",
    "spec.metrics.*.lines": "How many lines the pattern may span. Default: 1.",
    "spec.source": "Where the code comes from; written by Gangline at submission.",
    "spec.source.commit": "The Git commit that was checked out in the directory of the code.",
    "spec.source.dirty": "Whether that directory had changes that are not in the commit.",
    "spec.source.packages": "The digest of the list of packages that were installed.",
    "spec.source.rerun_of": "The job that this one repeats.",
    "spec.command": "The command of every role that has none of its own.",
    "spec.resources": "The resources of every role that has neither resources nor size of its own.",
    "spec.size": "The T-shirt size of every such role.",
    "spec.volumes": "The volumes of every role that has none of its own.",
    "spec.volumes.*.name": "The volume, or the claim of that name.",
    "spec.volumes.*.at": "Where it is mounted.",
    "spec.volumes.*.read_only": "Whether it cannot be written there. Default: false.",
    "spec.replicas": "Only without roles: the number of workers. Default: 1.",
    "spec.min": "Only without roles: the fewest workers.",
    "spec.max": "Only without roles: the most workers.",
    "spec.port": "Only without roles: the workers' port. Default: 2222.",
    "spec.roles.*.replicas": "How many start together. Default: 1.",
    "spec.roles.*.min": "The fewest the gang can live with. Default: replicas.",
    "spec.roles.*.max": (
        "The most the role grows to by itself when machines are free; what it has beyond replicas goes first when "
        "others need it; at most 100000. Default: replicas."
    ),
    "spec.roles.*.command": (
        "A list of words, or one string that is split as a shell would split it. Default: inherited."
    ),
    "spec.roles.*.image": "The role's own image. Default: spec.image.",
    "spec.roles.*.env": "Variables of this role; they win over spec.env, and both win over what Gangline sets.",
    "spec.roles.*.resources": "What each replica needs. Default: 1 CPU, memory without limit.",
    "spec.roles.*.size": "A T-shirt size instead; resources beside it refines it.",
    "spec.roles.*.restart": "What a failure in this role restarts: gang, replica or never. Default: policy.restart.",
    "spec.roles.*.retry": (
        "Which failures of this role deserve another try: any, signals or always. Default: policy.retry."
    ),
    "spec.roles.*.port": "The port each replica listens on; every replica has an address of its own. Default: 2222.",
    "spec.roles.*.placement": "Which nodes this role may use, beside what Placement says of the whole job.",
    "spec.roles.*.placement.within": (
        "Keep the replicas of this role, or those of each of its groups, inside one domain of this level, for example "
        "rack; or a list of levels, as for the whole job."
    ),
    "spec.roles.*.placement.within_required": "Whether that is a condition or a preference. Default: true.",
    "spec.roles.*.groups": (
        "Divides the replicas into this many groups of consecutive indexes, such as the stages of a pipeline: equally "
        "many in each, and of min too. The gang starts when every group's minimum has its place. Default: 1."
    ),
    "spec.roles.*.priority": (
        "How important the replicas above min are: those of the role with the lowest priority go first, also to jobs "
        "that are less important than this one but not than they; 0 to 1000 or a name. Default: the job's."
    ),
    "spec.roles.*.preemptible": (
        "Whether replicas of this role may be stopped for others. The gang as a whole is stopped only if all of its "
        "roles may be. Default: policy.preemptible."
    ),
    "spec.roles.*.pod_template": "A Kubernetes pod template to build the replica's pod from.",
    "spec.roles.*.volumes": "Volumes that each replica sees: a list of name, at and read_only. Default: inherited.",
    "spec.roles.*.volumes.*.name": "The volume, or the claim of that name.",
    "spec.roles.*.volumes.*.at": "Where it is mounted.",
    "spec.roles.*.volumes.*.read_only": "Whether it cannot be written there. Default: false.",
    "spec.policy.max_attempts": (
        "How many launches may fail before the job has failed; preemptions do not count. Default: 1."
    ),
    "spec.policy.max_replica_restarts": "How many restarts in place there may be, over all replicas. Default: 100.",
    "spec.policy.restart": "What a failure restarts: the whole gang, the replica alone, or never. Default: gang.",
    "spec.policy.retry": (
        "Which failures deserve another try: any, signals (exits above 127 only), or always (an exit with 0 too: "
        "the replica is then started again alone, as often as max_replica_restarts allows, and never counts as "
        "done). Default: any."
    ),
    "spec.policy.success": (
        "Who must succeed: the lead, or all replicas that are not service roles. "
        "Default: lead if there is a role chief, master or launcher, else all."
    ),
    "spec.policy.backoff": "The pause before the second attempt. Default: 1s.",
    "spec.policy.backoff_factor": "How much longer each pause is than the one before; 1 keeps them equal. Default: 2.",
    "spec.policy.backoff_limit": "The longest such pause. Default: 5m.",
    "spec.policy.retry_for": "How long after the first start a failed attempt may still have another.",
    "spec.policy.deadline": "The longest time the job may run, its results stored.",
    "spec.policy.ttl": "How long a finished job is kept.",
    "spec.policy.grace": "How long a replica may take to stop before it is killed. Default: 30s.",
    "spec.policy.expected": "How long you think it takes; the scheduler plans with it.",
    "spec.policy.preemptible": "Whether more important work may halt this job. Default: true.",
    "spec.policy.replicas": ("Auto: the scheduler chooses the size between min and max (sizes). Default: asked."),
    "spec.policy.stalled": "How long a replica may show no sign of life (watching over a run).",
    "spec.policy.nan": "Fail or halt: what becomes of the job when its loss is NaN or infinite (a loss that is NaN).",
    "spec.policy.clean": (
        "Which pods a finished job loses: all, those still running, none (what runs is ended and stays), or leave "
        "(what runs goes on); on a cluster only. Default: all."
    ),
    "spec.placement.prefer": "Pack replicas onto few nodes, or spread them. Default: by need.",
    "spec.placement.within": (
        "Keep the gang inside one domain of this level, for example rack; or a list of levels from the outermost on, "
        "each a name or level and required, for example zone and, in it, rack."
    ),
    "spec.placement.within_required": "Whether that is a condition or a preference; not beside a list. Default: true.",
    "spec.placement.apart": "No two replicas of a role share a domain of this level, for example node or rack.",
    "spec.placement.near": (
        "Labels of other jobs: only nodes that run a job with all of them (the first of a group that carries them "
        "itself may begin anywhere)."
    ),
    "spec.placement.away": (
        "Labels of other jobs: no node that runs a job with all of them; they keep away from this job, too."
    ),
    "spec.placement.gpu_type": "One type or a list, best first. Default: any.",
    "spec.placement.node_selector": "Labels a node must have.",
    "spec.placement.node_affinity": (
        "A list of terms of which one must hold; a term is a list of requirements that must all hold, each with "
        "key, operator (In, NotIn, Exists, DoesNotExist, Gt, Lt) and values; the key metadata.name means the "
        "node's name."
    ),
    "spec.placement.tolerations": (
        "Taints the replicas accept, each with key, operator (Equal or Exists), value and effect (NoSchedule, "
        "PreferNoSchedule, NoExecute)."
    ),
    "spec.data.inputs": "A list of moves made before the replicas start.",
    "spec.data.outputs": "A list of moves made after they succeeded.",
    **{f"spec.data.{moves}.*.{name}": text for moves in ("inputs", "outputs") for name, text in _MOVES.items()},
    **{f"spec.placement.tolerations.*.{name}": text for name, text in _TOLERATION.items()},
    "status": "How the job is doing; written by Gangline.",
    "status.phase": "Where the job is in its life.",
    "status.reason": "Why it is there, in one word.",
    "status.message": "Why it is there, for a person to read.",
    "status.ready": "How many replicas run, or have succeeded, of how many there should be.",
    "status.attempt": "How many times the gang was launched.",
    "status.startedAt": "When its first replica started.",
    "status.finishedAt": "When it reached its end.",
    "status.explanation": "Why it waits for machines.",
    "status.explanation.sentences": "That, for a person to read.",
    "status.explanation.facts": "The same, for a program.",
    "status.conditions": "The same in the form that kubectl wait reads.",
    **{f"status.conditions.*.{name}": text for name, text in _CONDITION.items()},
    "status.history": "The newest phases, oldest first.",
    "status.history.*.phase": "The phase.",
    "status.history.*.at": "When the job entered it.",
    "status.history.*.reason": "Why, in one word.",
    "status.history.*.message": "Why, for a person to read.",
    "status.record": "All that Gangline remembers of the job.",
}
KUBEFLOW: Texts = {
    "spec": "What the job does.",
    "spec.runPolicy": "When the job gives up, when it is cleaned up, how it is queued.",
    "spec.runPolicy.activeDeadlineSeconds": "The longest time the job may run, its results stored.",
    "spec.runPolicy.backoffLimit": "How many retries there may be; without it there is no end.",
    "spec.runPolicy.cleanPodPolicy": "Which pods a finished job removes: All, those still Running, or None.",
    "spec.runPolicy.managedBy": "Whose job this is to run; another name than the training operator's is left alone.",
    "spec.runPolicy.schedulingPolicy": "How the gang is queued.",
    "spec.runPolicy.schedulingPolicy.minAvailable": "How many replicas must start together; all if it is left out.",
    "spec.runPolicy.schedulingPolicy.minResources": "Not used: a gang waits until it fits.",
    "spec.runPolicy.schedulingPolicy.priorityClass": "Its priority, before the pods' own class.",
    "spec.runPolicy.schedulingPolicy.queue": "The queue the job waits in. Default: default.",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": "Not used: a gang waits until it fits.",
    "spec.runPolicy.suspend": "Whether the job holds nothing and waits to be resumed.",
    "spec.runPolicy.ttlSecondsAfterFinished": "How long a finished job is kept.",
    "spec.successPolicy": "AllWorkers: all must succeed, unless there is a chief or master, which decides alone.",
    "spec.enableDynamicWorker": "Whether workers restart alone and are told of the servers and of themselves only.",
    "spec.nprocPerNode": "How many processes torchrun starts in each replica: auto, gpu, cpu or a number.",
    "spec.elasticPolicy": "Within which bounds the number of workers may change.",
    "spec.elasticPolicy.minReplicas": "The fewest workers the job can live with.",
    "spec.elasticPolicy.maxReplicas": "The most workers the job may grow to.",
    "spec.elasticPolicy.maxRestarts": "How often torchrun starts its processes again.",
    "spec.elasticPolicy.nProcPerNode": "As spec.nprocPerNode, which replaces it.",
    "spec.elasticPolicy.rdzvBackend": "How torchrun's agents meet.",
    "spec.elasticPolicy.rdzvHost": "Where they meet, if not at the first worker.",
    "spec.elasticPolicy.rdzvPort": "On which port.",
    "spec.elasticPolicy.rdzvId": "Under which name.",
    "spec.elasticPolicy.rdzvConf": "Further settings of the meeting.",
    "spec.elasticPolicy.rdzvConf.*.key": "The setting's name.",
    "spec.elasticPolicy.rdzvConf.*.value": "The setting's value.",
    "spec.elasticPolicy.standalone": "Whether each replica meets only itself.",
    "spec.elasticPolicy.metrics": "Not used: workers grow when machines are free.",
    "spec.slotsPerWorker": "How many ranks each line of the hostfile has room for.",
    "spec.cleanPodPolicy": "As spec.runPolicy.cleanPodPolicy, which replaces it.",
    "spec.mainContainer": "The container that trains. Default: the first.",
    "spec.runLauncherAsWorker": "Whether the launcher is in the hostfile too.",
    "spec.sshAuthMountPath": "Where the key is mounted by which the launcher logs in.",
    "spec.launcherCreationPolicy": "Whether the launcher also waits for the workers to be ready.",
    "spec.mpiImplementation": "The form of the hostfile: OpenMPI, Intel or MPICH.",
    "spec.*": "The replicas by type.",
    "spec.*.*.replicas": "How many start together.",
    "spec.*.*.restartPolicy": "What happens when one ends: Always, OnFailure, Never or ExitCode.",
    "spec.*.*.template": "The pod of each, kept to the letter.",
    "spec.*.*.template.metadata": "Labels and annotations of the pods.",
    "spec.*.*.template.spec": "As the spec of a Pod.",
    "status": "How the job is doing, in the training operator's words; written by Gangline.",
    "status.conditions": "Created, Running, Restarting, Suspended, Succeeded or Failed, oldest first.",
    **{f"status.conditions.*.{name}": text for name, text in _CONDITION.items()},
    "status.replicaStatuses": "How many replicas of each type are in which state.",
    "status.replicaStatuses.*.active": "How many run or are about to.",
    "status.replicaStatuses.*.succeeded": "How many have ended with 0.",
    "status.replicaStatuses.*.failed": "How many have failed.",
    "status.replicaStatuses.*.selector": "The labels that select their pods.",
    "status.replicaStatuses.*.labelSelector": "The same, in its older form.",
    "status.startTime": "When the job was first seen.",
    "status.completionTime": "When it succeeded.",
    "status.lastReconcileTime": "When the status was written last.",
    "status.gangline": "What only Gangline says.",
    "status.gangline.record": "All that it remembers of the job.",
    "status.gangline.explanation": "Why the job waits for machines.",
}
POD: Texts = {
    "spec": "As the spec of a Pod.",
    "metadata": "Labels and annotations of the pod.",
    "containers": "The containers of the pod.",
    "initContainers": "Containers that run before them.",
    "*.name": "The container's name.",
    "*.image": "The image it runs.",
    "*.resources": "What it needs.",
    "*.resources.requests": "What is set aside for it.",
    "*.resources.limits": "What it may use at most.",
    "overhead": "What the pod needs besides its containers.",
}
"""Fields of pod templates, by the end of their path."""


def described(schema: Schema, texts: Texts, path: str = "") -> Schema:
    """Return a schema in which every field says what it is for; one that nothing is known of stays as it is."""
    found: Schema = dict(schema)
    if "properties" in schema:
        found["properties"] = {
            name: described(_with_text(below, texts, _join(path, name)), texts, _join(path, name))
            for name, below in schema["properties"].items()
        }
    for below in ("additionalProperties", "items"):
        if isinstance(schema.get(below), dict):
            found[below] = described(schema[below], texts, _join(path, "*"))
    return found


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _with_text(schema: Schema, texts: Texts, path: str) -> Schema:
    text = next((texts[known] for known in _known_as(path) if known in texts), None) or _of_pod(path)
    return {**schema, "description": text} if text else schema


def _known_as(path: str) -> tuple[str, ...]:
    """The names under which a field's text may be found: a role's placement says what the job's does."""
    steps = path.split(".")
    anywhere = ".".join([steps[0], "*", *steps[2:]]) if len(steps) > 1 else path
    return path, path.replace("spec.roles.*.placement.", "spec.placement."), anywhere


def _of_pod(path: str) -> str | None:
    return next((text for end, text in POD.items() if path.endswith(f".{end}")), None)
