"""What a user may ask for, one function each: check access, validate, record, answer.

Every function takes a ``Desk`` (what the service works with, and who is asking) and plain values, and returns
values of the model. The edges (REST, gRPC, web) translate to and from these functions and decide nothing.
Operations never carry anything out themselves: they record what is wanted and tell the controller to look.
"""

from gangline.operations.amendment import amend
from gangline.operations.cluster import Reason, explain, nodes, queues, usage
from gangline.operations.code import has_code, put_code
from gangline.operations.desk import Caller, ControllerLink, Desk
from gangline.operations.listing import Change, get_job, list_jobs, watch_job, watch_jobs
from gangline.operations.observation import LogFilter, journal, latest_metrics, logs, metrics
from gangline.operations.requests import cancel, delete, halt, prune, resume, scale
from gangline.operations.submission import submit

__all__ = [
    "Caller",
    "Change",
    "ControllerLink",
    "Desk",
    "LogFilter",
    "Reason",
    "amend",
    "cancel",
    "delete",
    "explain",
    "get_job",
    "halt",
    "has_code",
    "journal",
    "latest_metrics",
    "list_jobs",
    "logs",
    "metrics",
    "nodes",
    "prune",
    "put_code",
    "queues",
    "resume",
    "scale",
    "submit",
    "usage",
    "watch_job",
    "watch_jobs",
]
