"""What a user may ask for, one function each: check access, validate, record, answer.

Every function takes a ``OperationContext`` (what the service works with, and who is asking) and plain values, and
returns
values of the model. The edges (REST, gRPC, web) translate to and from these functions and decide nothing.
Operations never carry anything out themselves: they record what is wanted and tell the controller to look.
"""

from gangline.operations.accounting import usage_report
from gangline.operations.amendment import amend, label
from gangline.operations.audit import read_audit
from gangline.operations.cluster import explain, nodes, usage
from gangline.operations.code import code_of, has_code, has_packages, packages_of, put_code, put_packages
from gangline.operations.context import Caller, ControllerLink, OperationContext, RecordLink, Uploader
from gangline.operations.fault_injection import kill
from gangline.operations.figures import current_figures
from gangline.operations.forecasting import names_for, state_now
from gangline.operations.job_files import list_files, read_files, write_files
from gangline.operations.lineage import lineage
from gangline.operations.listing import change_of, get_job, list_jobs, unfinished_jobs, watch_job, watch_jobs
from gangline.operations.models import delete_version, model_files, promote, register_model
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
from gangline.operations.reasons import word_reason
from gangline.operations.records import (
    create_record,
    delete_record,
    do_verb,
    edit_record,
    get_record,
    get_records,
    list_records,
    summarize_records,
    watch_record,
)
from gangline.operations.rehearsal import rehearsing
from gangline.operations.requests import cancel, delete, halt, prune, resume, scale
from gangline.operations.stores import keep_store
from gangline.operations.submission import submit
from gangline.operations.terminals import interact
from gangline.operations.tokens import create_token, identify_token, list_tokens, revoke_token
from gangline.operations.workspaces import workspace_address

__all__ = [
    "MOST_METRICS",
    "Caller",
    "ControllerLink",
    "LogFilter",
    "ObjectKind",
    "OperationContext",
    "RecordLink",
    "Uploader",
    "amend",
    "bring_object",
    "cancel",
    "change_of",
    "code_of",
    "create_record",
    "create_token",
    "current_figures",
    "delete",
    "delete_object",
    "delete_record",
    "delete_version",
    "do_verb",
    "edit_record",
    "explain",
    "get_job",
    "get_object",
    "get_record",
    "get_records",
    "halt",
    "has_code",
    "has_packages",
    "identify_token",
    "interact",
    "journal",
    "keep_store",
    "kill",
    "label",
    "latest_metrics",
    "lineage",
    "list_files",
    "list_jobs",
    "list_objects",
    "list_records",
    "list_tokens",
    "logs",
    "metrics",
    "model_files",
    "names_for",
    "nodes",
    "packages_of",
    "promote",
    "prune",
    "put_code",
    "put_object",
    "put_packages",
    "read_audit",
    "read_files",
    "register_model",
    "rehearsing",
    "resume",
    "revoke_token",
    "scale",
    "state_now",
    "submit",
    "summarize_records",
    "thinned_metrics",
    "unfinished_jobs",
    "usage",
    "usage_report",
    "watch_job",
    "watch_jobs",
    "watch_record",
    "word_reason",
    "workspace_address",
    "write_files",
]
