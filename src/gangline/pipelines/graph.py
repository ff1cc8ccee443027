"""A pipeline as values: components, the tasks that use them, and where each input of a task comes from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.model.jobs.spec import JobSpec
from gangline.model.resources import Resources
from gangline.pipelines.conditions import Condition
from gangline.pipelines.values import Json, ParameterType


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDefinition:
    """A parameter that a component takes or gives. ``literals``: the only values it may have, if there are any."""

    type: ParameterType
    default: Json = None
    optional: bool = False
    literals: tuple[Json, ...] = ()
    loose: bool = False
    """Whether a value of another type is taken as it is: types of components of version 1 were never enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactDefinition:
    """An artefact, or a list of them, that a component takes or gives."""

    type: str = "system.Artifact"
    version: str = "0.0.1"
    many: bool = False
    optional: bool = False


Definition = ParameterDefinition | ArtifactDefinition


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the pipeline's author wrote; text may hold placeholders for the task's other inputs."""

    value: Json


@dataclass(frozen=True, slots=True)
class FromInput:
    """An input of the graph that the task is in, or what lies in it under some keys."""

    name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FromTask:
    """An output of another task of the same graph, or what lies in it under some keys."""

    task: str
    output: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalStatus:
    """How another task ended."""

    task: str


HIDDEN = "kubernetes."
"""How the names of inputs begin that only settings of the pod look at; programs are not told of them."""

InputSource = Constant | FromInput | FromTask | FinalStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Run the task once for each item. ``items`` is a list, or the name of the task's input that is one."""

    items: tuple[Json, ...] | str
    item_input: str
    parallelism: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a step that failed is tried again, and how long after."""

    most: int = 0
    backoff_seconds: float = 0.0
    backoff_factor: float = 2.0
    within_seconds: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One use of a component in a graph.

    ``after`` are the tasks that must have ended first. ``always``: it runs however they ended; ``forgives``: and their
    failure is not the graph's, which is where an exit handler differs from a task that ignores failures.
    """

    name: str
    component: str
    inputs: Mapping[str, InputSource] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    condition: Condition | None = None
    always: bool = False
    forgives: bool = False
    loop: Loop | None = None
    retries: Retries = Retries()
    cache: bool = True
    cache_key: str = ""
    """What makes two steps the same instead of their code and inputs, if the author says so."""

    @property
    def upstream(self) -> frozenset[str]:
        """Every task that it waits for: those it is told to, and those it takes something from."""
        given = {source.task for source in self.inputs.values() if isinstance(source, FromTask | FinalStatus)}
        return frozenset(self.after) | given


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    """Tasks; an output is what the first of its sources has that has anything."""

    tasks: Mapping[str, Task]
    outputs: Mapping[str, tuple[FromTask, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A command with placeholders, and what it needs."""

    command: tuple[str, ...]
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources | Callable[[Callable[[str], str]], Resources] | None = None
    """Amounts, or how to read them where inputs decide: it is given what fills in placeholders."""
    pod: Mapping[str, Json] = field(default_factory=dict)
    """The settings of its pod as a template, whose texts may hold placeholders."""
    passes: Mapping[str, bool] = field(default_factory=dict)
    """The settings that the program is told of as its ``TASK_CONFIG``, and whether its own pod has them too."""
    deadline_seconds: float | None = None
    left_at: Mapping[str, str] = field(default_factory=dict)
    """Where the program leaves an output, if it cannot be told where to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Something that exists already becomes the artefact ``output``; ``uri`` is an input's name or a constant."""

    uri: Constant | FromInput
    output: str
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplate:
    """A whole job, of one replica or many, whose texts have placeholders. ``registers``: outputs that become models."""

    job: JobSpec
    registers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelLookup:
    """What is known of a registered model when the step is due; ``address`` is as for the inputs of a job."""

    address: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the run: it fails for this reason, which may have placeholders."""

    reason: str


class Claim(StrEnum):
    """What becomes of a volume: it is there as long as its run, so that nothing need be started for either."""

    CREATE = "createpvc"
    DELETE = "deletepvc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """What takes inputs and gives outputs: a graph, a command or a job, or what needs no job."""

    body: Dag | Container | JobTemplate | Importer | ModelLookup | Claim | Stop
    inputs: Mapping[str, Definition] = field(default_factory=dict)
    outputs: Mapping[str, Definition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A whole pipeline. The body of ``root`` is a Dag."""

    name: str
    root: Component
    components: Mapping[str, Component] = field(default_factory=dict)
    deadline_seconds: float | None = None
    """How long the whole run may take."""
    workspace: Mapping[str, Json] | None = None
    """The claim of a volume that all steps share, if they have one."""
    notes: tuple[str, ...] = ()
    """What the file says that means nothing here."""


def in_order(dag: Dag) -> Iterator[Task]:
    """Return the tasks so that each comes behind all that it waits for; those on a cycle are left out."""
    left = dict(sorted(dag.tasks.items()))
    done: set[str] = set()
    while ready := [task for task in left.values() if task.upstream <= done]:
        for task in ready:
            del left[task.name]
            done.add(task.name)
            yield task
