"""A run of a pipeline as lines of text: one for each task, item and step, indented by where it is."""

import json
from collections.abc import Iterator, Mapping

from gangline.kinds.pipeline import run_tree
from gangline.model.kinds.pipeline import PipelineRun
from gangline.pipelines import Artifact, Instance, State
from gangline.pipelines.jobs import path_text

_SIGNS = {
    State.SUCCEEDED: "✓",
    State.FAILED: "✗",
    State.RUNNING: "●",
    State.SKIPPED: "-",
    State.NOT_TRIGGERED: "-",
    State.CANCELLED: "✗",
}
_WIDEST = 60


def tree_lines(run: PipelineRun) -> list[str]:
    """Return the run, its tasks and steps, and what came out."""
    root = run_tree(run)
    reused = {step.path: step.reused_from for step in run.status.steps if step.reused_from}
    state = f"{run.name}: {run.state}" + (f": {run.status.failure}" if run.status.failure else "")
    return [
        state,
        *_lines(root, 0, reused),
        *(f"{name} = {_shown(flow)}" for name, flow in sorted(root.outputs.items())),
    ]


def _lines(parent: Instance, depth: int, reused: Mapping[str, str]) -> Iterator[str]:
    for child in parent.children:
        name = child.path[-1]
        label = f"[{name}]" if child.task and child.task.name != name else name
        made = ", ".join(f"{key}={_shown(flow)}" for key, flow in sorted(child.outputs.items()))
        said = child.message or made
        source = reused.get(path_text(child.path))
        yield (
            f"{'  ' * depth}{_SIGNS.get(child.state, '·')} {label} {child.state}"
            + (f", reused from {source}" if source else "")
            + (f": {said}" if said else "")
        )
        yield from _lines(child, depth + 1, reused)


def _shown(flow: object) -> str:
    if isinstance(flow, Artifact):
        return flow.uri
    if isinstance(flow, tuple):
        return f"{len(flow)} artefacts"
    text = json.dumps(flow, ensure_ascii=False)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
