"""Our own job file: YAML or JSON into a ``JobSpec`` and back; docs/job-file.md is its manual.

The command line, the REST service and the stores call it. It touches no file: text or decoded data comes in.
"""

from gangline.dialects.native.amounts import SIZES
from gangline.dialects.native.fields import API_VERSION, KIND, PRIORITIES
from gangline.dialects.native.job import job_from_plain, job_from_value, job_to_plain, read_job, read_jobs
from gangline.dialects.native.short_form import ShortForm, derived_name, job_from_short_form, pairs
from gangline.dialects.native.sweep import sweep_from_value, sweep_to_plain

__all__ = [
    "API_VERSION",
    "KIND",
    "PRIORITIES",
    "SIZES",
    "ShortForm",
    "derived_name",
    "job_from_plain",
    "job_from_short_form",
    "job_from_value",
    "job_to_plain",
    "pairs",
    "read_job",
    "read_jobs",
    "sweep_from_value",
    "sweep_to_plain",
]
