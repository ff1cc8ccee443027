"""Arena's command line as a table of options and a function from their values to a job.

``gangline submit tf|pytorch|mpi|horovod`` binds the table to its parser. Nothing here parses words.
"""

from gangline.dialects.arena.job import job_from_options
from gangline.dialects.arena.options import MODES, OPTIONS, VERB_NAMES, Option, Takes, Verb, options_of

__all__ = ["MODES", "OPTIONS", "VERB_NAMES", "Option", "Takes", "Verb", "job_from_options", "options_of"]
