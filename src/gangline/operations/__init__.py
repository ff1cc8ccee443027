"""What a user may ask for, one function each: check access, validate, record, answer.

Every function takes a ``Desk`` (what the service works with, and who is asking) and plain values, and returns
values of the model. The edges (REST, gRPC, web) translate to and from these functions and decide nothing.
Operations never carry anything out themselves: they record what is wanted and tell the controller to look.
"""

from gangline.operations.amendment import amend
from gangline.operations.cluster import explain, nodes, queues, usage
from gangline.operations.code import has_code, put_code
from gangline.operations.desk import Caller, ControllerLink, Courier, Desk, SweepLink
from gangline.operations.listing import get_job, list_jobs, unfinished_jobs, watch_job, watch_jobs
from gangline.operations.objects import ObjectKind, bring_object, delete_object, get_object, list_objects, put_object
from gangline.operations.observation import (
    MOST_METRICS,
    LogFilter,
    journal,
    latest_metrics,
    logs,
    metrics,
    thinned_metrics,
)
from gangline.operations.reasons import explained, word_reason
from gangline.operations.requests import cancel, delete, halt, prune, resume, scale
from gangline.operations.sabotage import kill
from gangline.operations.submission import submit
from gangline.operations.sweeps import (
    delete_sweep,
    get_sweep,
    list_sweeps,
    stop_sweep,
    submit_sweep,
    watch_sweep,
)

__all__ = [
    "MOST_METRICS",
    "Caller",
    "ControllerLink",
    "Courier",
    "Desk",
    "LogFilter",
    "ObjectKind",
    "SweepLink",
    "amend",
    "bring_object",
    "cancel",
    "delete",
    "delete_object",
    "delete_sweep",
    "explain",
    "explained",
    "get_job",
    "get_object",
    "get_sweep",
    "halt",
    "has_code",
    "journal",
    "kill",
    "latest_metrics",
    "list_jobs",
    "list_objects",
    "list_sweeps",
    "logs",
    "metrics",
    "nodes",
    "prune",
    "put_code",
    "put_object",
    "queues",
    "resume",
    "scale",
    "stop_sweep",
    "submit",
    "submit_sweep",
    "thinned_metrics",
    "unfinished_jobs",
    "usage",
    "watch_job",
    "watch_jobs",
    "watch_sweep",
    "word_reason",
]
