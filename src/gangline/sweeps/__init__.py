"""What a sweep should try next, given the trials there are. Pure: the controller submits and cancels the jobs."""

from gangline.sweeps.plan import Plan, Trial, plan, trial_of
from gangline.sweeps.rendering import trial_to_job
from gangline.sweeps.samplers import SAMPLERS, GridSampler, Sampler

__all__ = ["SAMPLERS", "GridSampler", "Plan", "Sampler", "Trial", "plan", "trial_of", "trial_to_job"]
