"""Katib's objects: Experiments to create, change and delete; Trials and Suggestions to look at."""

import json
from dataclasses import replace

from gangline.api.kubernetes.foreign_kinds import Followers, ForeignKind
from gangline.api.kubernetes.plain import Plain, part
from gangline.dialects import document
from gangline.dialects.katib import experiment_of, stand_in
from gangline.dialects.katib.status import experiment_to_object, suggestion_to_object, trials_to_objects
from gangline.kinds.experiment import EXPERIMENT, read_file
from gangline.model.kinds.experiment import ExperimentRecord, ExperimentSpec, ExperimentView


def _read(sent: Plain) -> ExperimentSpec:
    spec = read_file(document.plain({name: value for name, value in sent.items() if name != "status"}), {})
    _notes(spec)  # what no machine without a cluster could run is refused
    return spec


def _notes(spec: ExperimentSpec) -> tuple[str, ...]:
    experiment = experiment_of(spec.manifest_json)
    if experiment.template.spec_json is None:
        return ()
    trial = stand_in(experiment)
    trial.on_one_machine()
    return (*trial.notes, *trial.local_notes, *filter(None, [experiment.algorithm.note]))


def _changed(known: ExperimentView, before: Plain, wanted: Plain) -> ExperimentSpec:
    kept = json.loads(known.spec.manifest_json)["spec"]
    # What a client reads back has defaults in it that nobody wrote.
    filled = part(before, "spec")
    body = {
        name: kept[name] if name in kept and value == filled.get(name) else value
        for name, value in part(wanted, "spec").items()
        if name in kept or value != filled.get(name)
    }
    return replace(_read({**wanted, "spec": body}), env=known.spec.env)


def _drafted(record: ExperimentRecord) -> ExperimentView:
    return ExperimentView(id=record.id, spec=record.spec, state="Created", created_at=record.created_at)


EXPERIMENTS = ForeignKind(
    kind=EXPERIMENT,
    show=experiment_to_object,
    read=_read,
    changed=_changed,
    drafted=_drafted,
    notes=_notes,
    followers={
        "suggestions": Followers("Suggestion", lambda view: [suggestion_to_object(view)]),
        "trials": Followers("Trial", trials_to_objects),
    },
)
