"""What a sweep should try next, given the trials there are. Pure: the controller submits and cancels the jobs."""

from gangline.sweeps.ending import check_end, in_vain
from gangline.sweeps.past import Past, gather
from gangline.sweeps.plan import Plan, plan
from gangline.sweeps.rendering import check_references, trial_to_job
from gangline.sweeps.results import coordinates, history, ranked, slices, winner_to_job
from gangline.sweeps.samplers import (
    SAMPLERS,
    GridSampler,
    Outcome,
    Sampler,
    Search,
    Tried,
    check_objective,
    may_take_long,
    sampler_named,
    sampler_names,
)
from gangline.sweeps.stopping import curves_of, sift
from gangline.sweeps.trials import Trial, best_trial, ended_trial, trials_of
from gangline.sweeps.view import best_text, known_trials, progress_text, result_text, values_text, view

__all__ = [
    "SAMPLERS",
    "GridSampler",
    "Outcome",
    "Past",
    "Plan",
    "Sampler",
    "Search",
    "Trial",
    "Tried",
    "best_text",
    "best_trial",
    "check_end",
    "check_objective",
    "check_references",
    "coordinates",
    "curves_of",
    "ended_trial",
    "gather",
    "history",
    "in_vain",
    "known_trials",
    "may_take_long",
    "plan",
    "progress_text",
    "ranked",
    "result_text",
    "sampler_named",
    "sampler_names",
    "sift",
    "slices",
    "trial_to_job",
    "trials_of",
    "values_text",
    "view",
    "winner_to_job",
]
