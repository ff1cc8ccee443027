"""What a sweep should try next, given the trials there are. Pure: the controller submits and cancels the jobs."""

from gangline.sweeps.plan import Plan, Trial, best_trial, plan, trials_of
from gangline.sweeps.rendering import check_references, trial_to_job
from gangline.sweeps.samplers import SAMPLERS, GridSampler, Sampler

__all__ = [
    "SAMPLERS",
    "GridSampler",
    "Plan",
    "Sampler",
    "Trial",
    "best_trial",
    "check_references",
    "plan",
    "trial_to_job",
    "trials_of",
]
