"""Readers of public traces and of our own plain CSV. Each turns a file into the same few values, and nothing else."""

from gangline.simulator.traces.arrival import Arrival, TraceError, open_text
from gangline.simulator.traces.dlrm import dlrm_nodes, read_dlrm
from gangline.simulator.traces.openb import read_openb_jobs, read_openb_nodes, read_openb_pods
from gangline.simulator.traces.philly import read_philly
from gangline.simulator.traces.plain import read_plain, write_plain
from gangline.simulator.traces.tiresias import read_tiresias

__all__ = [
    "Arrival",
    "TraceError",
    "dlrm_nodes",
    "open_text",
    "read_dlrm",
    "read_openb_jobs",
    "read_openb_nodes",
    "read_openb_pods",
    "read_philly",
    "read_plain",
    "read_tiresias",
    "write_plain",
]
