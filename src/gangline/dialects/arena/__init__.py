"""Arena's command line as a table of options and a function from their values to a job.

``gangline submit tf|pytorch|mpi|horovod`` and ``gangline serve tensorflow|kserve|custom`` bind their tables to their
parsers. Nothing here parses words.
"""

from gangline.dialects.arena.job import job_from_options
from gangline.dialects.arena.options import (
    MODES,
    OPTIONS,
    REFUSED,
    VERB_NAMES,
    Option,
    Refused,
    Takes,
    Verb,
    options_of,
)
from gangline.dialects.arena.refused_verbs import REFUSED_VERBS, refuse_verb

__all__ = [
    "MODES",
    "OPTIONS",
    "REFUSED",
    "REFUSED_VERBS",
    "VERB_NAMES",
    "Option",
    "Refused",
    "Takes",
    "Verb",
    "job_from_options",
    "options_of",
    "refuse_verb",
]
