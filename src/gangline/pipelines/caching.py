"""Reusing outputs of earlier runs: what makes two steps the same, and why one could not be reused.

A key is two digests: of what the step runs (command, image, environment, outputs) and of its inputs. Artefacts count by
their content where the step that made them reported its digest, so that the same data from another run is the same.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from gangline.model.clock import Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineStatus, StepStatus
from gangline.pipelines.evaluation import Instance, State
from gangline.pipelines.graph import Container, Definition, JobTemplate
from gangline.pipelines.placeholders import WORKSPACE, Flow
from gangline.pipelines.reports import MISSING
from gangline.pipelines.values import Artifact, Json

_OF_THE_RUN = ("{{$.pipeline_", "{{$.outputs.output_file", "{{$.workspace_path")
"""Placeholders that differ in every run."""
_MOST_NAMED = 1000
"""How long the list of inputs in a key may be; without it, a miss is explained less exactly."""
_NOT_OF_THE_CODE = ("name", "tenant", "queue", "priority", "labels", "policy", "placement")


@dataclass(frozen=True, slots=True)
class Reusable:
    """Outputs that an earlier step reported, and where they are from."""

    result: str
    source: str
    at: Timestamp


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier runs have made, by key; of two with the same key the newer counts."""

    made: Mapping[str, Reusable]
    since: Timestamp | None = None
    """What was made before is too old."""

    @classmethod
    def of(
        cls,
        runs: Sequence[PipelineRun],
        now: Timestamp,
        age_seconds: float | None = None,
        missing: Iterable[str] = (),
    ) -> "Earlier":
        """Collect what was made and not itself reused, so that every address leads to the job that made it.

        What made an artefact that is ``missing``, or that any of the runs found missing, is left out.
        """
        gone = {*missing, *(each for run in runs for each in missing_artifacts(run.status))}
        made = {
            step.key: Reusable(step.result, f"{run.name}/{step.path}", step.ended_at or run.created_at)
            for run in sorted(runs, key=lambda run: run.created_at)
            for step in run.status.steps
            if step.key and step.state == State.SUCCEEDED and not step.reused_from and not lacks(step, gone)
        }
        return cls(made, None if age_seconds is None else Timestamp(now - age_seconds))

    def find(self, key: str) -> Reusable | None:
        """Return what an earlier step with this key made, if it is not too old."""
        found = self.made.get(key)
        return None if found is None or self._is_old(found) else found

    def _is_old(self, made: Reusable) -> bool:
        return self.since is not None and made.at < self.since

    def why_not(self, step: Instance, key: str, *, allowed: bool) -> str:
        """Say why a step had to run."""
        if not allowed:
            return "the run reuses nothing"
        if step.task is None or not step.task.cache:
            return "the pipeline says not to reuse this step"
        if (old := self.made.get(key)) is not None:
            return f"what {old.source} made is older than the run allows"
        code, _, inputs = key.partition(":")
        same = [(known, found.source) for known, found in self.made.items() if known.partition(":")[0] == code]
        if not same:
            return "no earlier step ran this code"
        known, source = min(same, key=lambda each: len(_differing(inputs, each[0].partition(":")[2])))
        differing = _differing(inputs, known.partition(":")[2])
        return f"{_listed(differing)} of {source}" if differing else f"its inputs differ from those of {source}"


def missing_artifacts(status: PipelineStatus) -> frozenset[str]:
    """Return the addresses at which steps of a run, or of what it was before a retry, found no artefact any more."""
    failed = (step.result for step in status.steps if step.state == State.FAILED and step.result)
    return frozenset(filter(None, (*status.missing, *(json.loads(each).get(MISSING, "") for each in failed))))


def lacks(step: StepStatus, missing: Collection[str]) -> bool:
    """Whether an artefact that a step made, or reused, is no longer there."""
    if not missing or not step.result:
        return False
    made = json.loads(step.result).get("artifacts", {}).values()
    return any(artifact.get("uri") in missing for several in made for artifact in several)


def step_key(step: Instance, run_name: str) -> str:
    """Return the digests of what a step runs and of its inputs, or of what its author says instead."""
    if step.task is not None and step.task.cache_key:
        return f"{_digest([step.task.component, step.task.cache_key])}:"
    runs = json.dumps(_runs(step.component.body), sort_keys=True, default=str)
    outputs = {name: _definition(kind) for name, kind in step.component.outputs.items()}
    personal = run_name if any(sign in runs for sign in _OF_THE_RUN) else ""
    personal = run_name if WORKSPACE in json.dumps(list(step.inputs.values()), default=str) else personal
    code = _digest([runs, outputs, personal])
    each = ",".join(f"{name}={_digest(_identity(flow))[:8]}" for name, flow in sorted(step.inputs.items()))
    whole = _digest({name: _identity(flow) for name, flow in step.inputs.items()})
    return f"{code}:{whole}:{each}" if len(each) <= _MOST_NAMED else f"{code}:{whole}"


def _differing(inputs: str, others: str) -> list[str]:
    """Return the names of the inputs in which two keys differ, where both say what each input was."""
    mine, theirs = (dict(map(_pair, filter(None, each.partition(":")[2].split(",")))) for each in (inputs, others))
    return sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))


def _pair(text: str) -> tuple[str, str]:
    name, _, digest = text.rpartition("=")
    return name, digest


def _listed(names: Sequence[str]) -> str:
    return (
        f"its input '{names[0]}' differs from that"
        if len(names) == 1
        else (f"its inputs {', '.join(repr(name) for name in names)} differ from those")
    )


def _runs(body: object) -> Json:
    """Return what decides what a step does, besides its inputs."""
    if isinstance(body, Container):
        return [list(body.command), body.image, dict(body.env), dict(body.pod)]
    assert isinstance(body, JobTemplate)
    job = asdict(body.job)
    return [{name: part for name, part in job.items() if name not in _NOT_OF_THE_CODE}, dict(body.registers)]


def _definition(kind: Definition) -> Json:
    return [type(kind).__name__, str(kind.type)]


def _identity(flow: Flow) -> Json:
    if isinstance(flow, tuple):
        return [_identity(each) for each in flow]
    if isinstance(flow, Artifact):
        return {"content": flow.digest or flow.uri, "type": flow.type, "metadata": dict(flow.metadata)}
    return {"value": flow}


def _digest(data: Json) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]
