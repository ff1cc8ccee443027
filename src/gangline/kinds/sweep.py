"""The kind Sweep: one job tried with many values."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gangline.dialects.native.sweep import sweep_from_value, sweep_to_plain
from gangline.errors import ConflictError
from gangline.kinds.kind import Column, FileFormat, Kind, NewJob, Owned, Plan, Reader, Verb
from gangline.model import JobSpec, Timestamp
from gangline.model.kinds.sweep import AddedTrial, Sweep, SweepProgress, SweepSpec, SweepStatus
from gangline.model.search.search_space import check_values, completed
from gangline.model.search.stopping import Rule
from gangline.sweeps import (
    Past,
    best_text,
    check_end,
    check_references,
    curves_of,
    ended_trial,
    gather,
    in_vain,
    may_take_long,
    plan,
    progress_text,
    sampler_named,
    sift,
    trial_to_job,
    trials_of,
    view,
)

_MOST_ADDED = 1000
"""They are kept in the record, which is read and written whole."""

_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def _field(text: str, **schema: Any) -> dict[str, Any]:
    return {"description": text, **schema}


_SCHEMA = {
    "type": "object",
    "description": "One job, and the values it is tried with.",
    "required": ["parameters", "template"],
    "properties": {
        # A name, or a mapping of a name and settings; one objective, or a list. The dialect checks either.
        "sampler": _field(
            "Who chooses the values: grid (default), random, sobol, or one of Optuna: tpe, cma-es, gp, nsga-ii.",
            **_ANYTHING,
        ),
        "seed": _field("Makes the search repeatable. Default: follows from the sweep's id.", type="integer", minimum=0),
        "parallelism": _field("How many trials may be unfinished at once.", type="integer", minimum=1),
        "share": _field(
            "Which part of what the jobs of its queue hold may be its own while others wait there, above 0 to 1.",
            type="number",
        ),
        "objective": _field(
            "What trials are compared by: metric, goal (maximize or minimize) and target, or a list of those.",
            **_ANYTHING,
        ),
        "budget": _field(
            "When the search ends at the latest.",
            type="object",
            properties={
                "trials": _field("How many trials the sampler may choose.", type="integer", minimum=1),
                "time": _field("How long the sweep may take, as 90s, 30m or 2h.", **_ANYTHING),
                "gpu_hours": _field("For how long all trials together may have their GPUs.", type="number"),
                "failures": _field(
                    "How many trials may fail or end without a result. Default: 10; a grid has no limit.",
                    type="integer",
                    minimum=1,
                ),
            },
        ),
        "stopping": _field(
            "When trials that are not worth while are stopped, or rest until they are.",
            type="object",
            required=["rule"],
            properties={
                "rule": _field("median, percentile, patience, asha, hyperband or pbt.", type="string"),
                "unit": _field("What is counted: steps (default), epochs or time.", type="string"),
                "first": _field("The step of the first rung. Default: 1.", **_ANYTHING),
                "factor": _field("Each rung is this many times as far as the one before. Default: 3.", type="integer"),
                "last": _field("The steps of a whole run, for asha, hyperband and pbt.", **_ANYTHING),
                "percentile": _field("How many per cent of the trials go on. Default: 50.", type="number"),
                "min_trials": _field("How many others must have got as far. Default: 3.", type="integer", minimum=1),
                "patience": _field("After how many steps without a better value to stop.", **_ANYTHING),
            },
        ),
        "known": _field(
            "What was tried before: the sampler learns from it.",
            type="array",
            items={
                "type": "object",
                "required": ["values", "results"],
                "properties": {
                    "values": _field("The value of each parameter.", type="object", **_ANYTHING),
                    "results": _field("The number of each objective, by metric.", type="object", **_ANYTHING),
                },
            },
        ),
        # A mapping of names to values, or a list where their order counts; the dialect checks either.
        "parameters": _field(
            "Names, and the values to try for each, passed on exactly as written.",
            **_ANYTHING,
        ),
        "template": _field(
            "The job of every trial.",
            type="object",
            required=["spec"],
            properties={
                "metadata": _field(
                    "Where trials differ from the sweep: labels, say.",
                    **{"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                ),
                "spec": _field(
                    "As the spec of a Job, with $(NAME) for the values.",
                    **{"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                ),
            },
        ),
    },
}


def plan_sweep(sweep: Sweep, owned: Owned, now: Timestamp) -> Plan[SweepProgress]:
    """Say which trials begin and end now."""
    trials = trials_of(sweep, owned.jobs, owned.metrics)
    past: Past = owned.past or gather(sweep, None, owned.ended)
    wanted = plan(sweep, trials, now, curves_of(sweep, trials, owned.history), owned.queue, past=past)
    progress = replace(
        sweep.status,
        begun=wanted.begun,
        added_begun=wanted.added_begun,
        end=in_vain(sweep, wanted.end, trials, past),
        marks=wanted.marks,
        pruned=wanted.pruned,
        yielded=wanted.yielded,
    )
    if wanted.over and sweep.status.finished_at is None:
        progress = replace(progress, finished_at=now)
    named = (*past.members, *trials) if any(each.copy for each in wanted.start) else ()
    names = {trial.number: trial.job.name for trial in named}
    start = (NewJob(sweep.job_id(each.number), trial_to_job(sweep.spec, each, names)) for each in wanted.start)
    return Plan(
        status=progress,
        create=tuple(start),
        cancel=wanted.cancel,
        halt=wanted.halt,
        resume=wanted.resume,
        again_at=wanted.again_at,
    )


def view_sweep(sweep: Sweep, owned: Owned) -> SweepStatus:
    """Show a sweep with its trials."""
    return view(sweep, trials_of(sweep, owned.jobs, owned.metrics))


def stop_sweep(sweep: Sweep) -> Sweep:
    """Start no further trial and cancel those that run; a finished sweep stays finished."""
    if sweep.status.finished_at is not None:
        return sweep
    return replace(sweep, status=replace(sweep.status, stopped=True))


def add_trial(sweep: Sweep, values: Mapping[str, str]) -> Sweep:
    """Have values tried that somebody chose; the sweep must not have ended."""
    check_values(sweep.spec.parameters, values)
    if sweep.status.settled or sweep.status.stopped or sweep.status.end is not None:
        raise ConflictError(f"the sweep '{sweep.name}' tries no more; submit another one")
    if sweep.spec.stopping is not None and sweep.spec.stopping.rule is Rule.PBT:
        raise ConflictError(f"the population of the sweep '{sweep.name}' is complete; submit another sweep")
    if len(sweep.status.added) >= _MOST_ADDED:
        raise ConflictError(f"the sweep '{sweep.name}' has {_MOST_ADDED} trials that were added by hand")
    added = (*sweep.status.added, AddedTrial(values=completed(sweep.spec.parameters, values)))
    return replace(sweep, status=replace(sweep.status, added=added))


def _write_object(spec: SweepSpec) -> dict[str, Any]:
    plain: dict[str, Any] = sweep_to_plain(spec, ordered=True)
    plain["spec"]["template"]["metadata"].pop("tenant", None)
    return plain


def _each_template(spec: SweepSpec, change: Callable[[JobSpec], JobSpec]) -> SweepSpec:
    return replace(spec, template=change(spec.template))


async def _check(before: Sweep | None, after: Sweep | None, reader: Reader) -> None:
    if before is None and after is not None:
        check_references(after.spec)
        check_end(after.spec)
        sampler_named(after.spec.sampler).check(after.spec)


SWEEP: Kind[SweepSpec, SweepProgress, SweepStatus] = Kind(
    name="sweep",
    plural="sweeps",
    summary="Try one job with many values.",
    description="One job tried with many values; each trial is a job of its own.",
    spec=SweepSpec,
    status=SweepProgress,
    answer=SweepStatus,
    format=FileFormat(
        read=lambda value, sizes: sweep_from_value(value, sizes=sizes),
        write=sweep_to_plain,
        write_object=_write_object,
        schema=_SCHEMA,
    ),
    columns=(
        Column("STATE", lambda sweep: sweep.state),
        Column("TRIALS", progress_text),
        Column("BEST", best_text, last=True),
    ),
    verbs=(
        Verb("stop", "Start no further trial and cancel those that run; results are kept.", stop_sweep),
        Verb("add", "Try these values too, before what the sampler would try next.", add_trial, "PARAMETER=VALUE"),
    ),
    plan=plan_sweep,
    plans_slowly=lambda spec: may_take_long(spec.sampler),
    view=view_sweep,
    digest=ended_trial,
    gather=gather,
    reads_metrics=lambda spec: spec.objective is not None,
    sift=sift,
    follows=lambda spec: (spec.objective.metric,) if spec.stopping is not None and spec.objective is not None else (),
    shares=lambda spec: spec.template.queue if spec.share is not None else None,
    each_template=_each_template,
    check=_check,
)
